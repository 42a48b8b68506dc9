// SPDX-License-Identifier: Apache-2.0
// Effects of calls that allocate and free memory, and of calls about stream-ordered pools.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/driver/tracking.hpp"
#include "preload/effects/effect.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

template <trace::MemoryKind kMemory, int kAddress, int kBytes, int kStream = kNone,
          int kPool = kNone>
struct Allocates : Outputs<&trace::Allocation::address, kAddress> {
  using Record = trace::Allocation;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = kMemory;
    record.bytes = input<kBytes>(a...);
    record.stream = input<kStream>(a...);
    record.pool = input<kPool>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&... a) noexcept {
    if constexpr (kPool != kNone) {
      if (result == CUDA_SUCCESS) tracking::pool_seen(input<kPool>(a...));
    } else if constexpr (kMemory == trace::MemoryKind::kStreamOrdered) {
      tracking::pools_in_use();
    }
  }
};

// Arguments: (address*, pitch*, width, height, element size).
struct AllocatesPitched {
  using Record = trace::Allocation;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = trace::MemoryKind::kPitched;
    record.bytes = input<2>(a...) * input<3>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
    record.bytes = output<1>(a...) * input<3>(a...);
  }
};

// The caller's own memory becomes page-locked. Arguments: (pointer, bytes, flags).
struct RegistersHost {
  using Record = trace::Allocation;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = trace::MemoryKind::kRegistered;
    record.address = input<0>(a...);
    record.bytes = input<1>(a...);
  }
};

template <trace::MemoryKind kMemory, int kAddress, int kStream = kNone>
struct Frees {
  using Record = trace::Free;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = kMemory;
    record.address = input<kAddress>(a...);
    record.stream = input<kStream>(a...);
  }
};

std::uint64_t element_bytes(CUarray_format format, unsigned int channels) noexcept;

template <class Descriptor>
std::uint64_t array_bytes(const Descriptor& array) noexcept {
  std::uint64_t elements = array.Width;
  if (array.Height != 0) elements *= array.Height;
  if constexpr (requires { array.Depth; }) {
    if (array.Depth != 0) elements *= array.Depth;
  }
  return elements * element_bytes(array.Format, array.NumChannels);
}

// Arguments: (array*, descriptor). The driver does not report the size, so width x height x depth x
// element stands for it.
struct AllocatesArray : Outputs<&trace::Allocation::address> {
  template <class Array, class Descriptor>
  static void before(Record& record, Array, const Descriptor* descriptor) noexcept {
    record.memory = trace::MemoryKind::kArray;
    record.call.record.flags |= trace::kFlagEstimated;
    if (descriptor != nullptr) record.bytes = array_bytes(*descriptor);
  }
};

struct AllocatesMipmappedArray : Outputs<&trace::Allocation::address> {
  static void before(Record& record, CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                     unsigned int levels) noexcept;
};

// Arguments: (handle*, bytes, properties, flags).
struct CreatesPhysical : Outputs<&trace::Allocation::address> {
  static void before(Record& record, CUmemGenericAllocationHandle*, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) noexcept;
};

struct CreatesPool : Outputs<&trace::Pool::pool> {
  static void before(Record& record, CUmemoryPool*, const CUmemPoolProps* properties) noexcept {
    record.operation = trace::PoolOperation::kCreate;
    if (properties == nullptr) return;
    record.value = properties->maxSize;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      record.device = properties->location.id;
    }
  }
  static void track(CUresult result, CUmemoryPool* pool, const CUmemPoolProps*) noexcept {
    if (result == CUDA_SUCCESS && pool != nullptr) tracking::pool_seen(bits(*pool));
  }
};

struct DestroysPool {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool pool) noexcept {
    record.operation = trace::PoolOperation::kDestroy;
    record.pool = bits(pool);
  }
  static void prepare(CUmemoryPool pool) noexcept { tracking::pool_ends(bits(pool)); }
};

template <trace::PoolOperation kOperation, int kPool, int kValue = kNone, int kDevice = kNone>
struct UsesPool {
  using Record = trace::Pool;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.pool = input<kPool>(a...);
    record.value = input<kValue>(a...);
    if constexpr (kDevice != kNone) record.device = argument<kDevice>(a...);
  }
};

// Arguments: (pool*, device).
template <trace::PoolOperation kOperation>
struct GetsPool : Outputs<&trace::Pool::pool> {
  static void before(Record& record, CUmemoryPool*, CUdevice device) noexcept {
    record.operation = kOperation;
    record.device = device;
  }
  static void track(CUresult result, CUmemoryPool* pool, CUdevice) noexcept {
    if (result == CUDA_SUCCESS && pool != nullptr) tracking::pool_seen(bits(*pool));
  }
};

// Arguments: (pool, attribute, value*).
struct SetsPoolAttribute {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool pool, CUmemPool_attribute attribute,
                     void* value) noexcept;
};

// Arguments: (location*, type, pool).
struct SetsLocationPool {
  using Record = trace::Pool;
  static void before(Record& record, CUmemLocation* location, CUmemAllocationType,
                     CUmemoryPool pool) noexcept {
    record.operation = trace::PoolOperation::kSetCurrent;
    record.pool = bits(pool);
    if (location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
      record.device = location->id;
    }
  }
};

}  // namespace gpumemtrace::preload::effects
