// SPDX-License-Identifier: Apache-2.0
// Effects of calls that copy or set memory.
#pragma once

#include <cstdint>

#include "preload/effects/effect.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

using trace::EndType;

template <EndType kDestinationType, int kDestination, EndType kSourceType, int kSource, int kBytes,
          int kStream = kNone>
struct Copies {
  using Record = trace::Copy;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.destination_type = kDestinationType;
    record.source_type = kSourceType;
    record.destination = input<kDestination>(a...);
    record.source = input<kSource>(a...);
    record.bytes = input<kBytes>(a...);
    record.stream = input<kStream>(a...);
  }
};

constexpr EndType end_type(CUmemorytype type) noexcept {
  return type <= CU_MEMORYTYPE_UNIFIED ? static_cast<EndType>(type) : EndType::kUnknown;
}

// One end of a 2D or 3D copy: the host pointer, device address or array that its type selects.
template <class Host, class Device>
std::uint64_t end_address(CUmemorytype type, Host host, Device device, CUarray array) noexcept {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return bits(host);
    case CU_MEMORYTYPE_ARRAY:
      return bits(array);
    default:
      return bits(device);
  }
}

// A 2D or 3D copy: argument `kParameters` points to the structure that describes it, in any of the
// structure's layouts.
template <int kParameters, int kStream = kNone>
struct CopiesRegion {
  using Record = trace::Copy;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.stream = input<kStream>(a...);
    const auto* copy = argument<kParameters>(a...);
    if (copy == nullptr) return;
    record.destination_type = end_type(copy->dstMemoryType);
    record.source_type = end_type(copy->srcMemoryType);
    record.destination =
        end_address(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray);
    record.source =
        end_address(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray);
    record.bytes = std::uint64_t{copy->WidthInBytes} * copy->Height;
    record.dimensions = 2;
    if constexpr (requires { copy->Depth; }) {
      record.bytes *= copy->Depth;
      record.dimensions = 3;
    }
  }
};

// Arguments: (destinations[], sources[], sizes[], count, ..., stream). One record for each element.
template <int kStream>
struct CopiesBatch : Batch<CopiesBatch<kStream>, 3> {
  using Record = trace::Copy;
  template <class... A>
  static void part(Record& record, std::uint32_t index, const A&... a) noexcept {
    record.part = index;
    record.stream = input<kStream>(a...);
    if (index >= argument<3>(a...)) return;
    record.destination = argument<0>(a...)[index];
    record.source = argument<1>(a...)[index];
    record.bytes = argument<2>(a...)[index];
  }
};

// Arguments: (count, operations[], ..., stream).
template <int kStream>
struct CopiesRegionBatch : Batch<CopiesRegionBatch<kStream>, 0> {
  using Record = trace::Copy;
  template <class... A>
  static void part(Record& record, std::uint32_t index, const A&... a) noexcept {
    record.part = index;
    record.dimensions = 3;
    record.stream = input<kStream>(a...);
    if (index >= argument<0>(a...)) return;
    fill(record, argument<1>(a...)[index]);
  }

 private:
  static void fill(Record& record, const CUDA_MEMCPY3D_BATCH_OP& operation) noexcept {
    record.destination_type = operand_type(operation.dst);
    record.source_type = operand_type(operation.src);
    record.destination = operand_address(operation.dst);
    record.source = operand_address(operation.src);
    record.bytes = operation.extent.width * operation.extent.height * operation.extent.depth;
  }
  static EndType operand_type(const CUmemcpy3DOperand& operand) noexcept {
    return operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? EndType::kArray : EndType::kUnified;
  }
  static std::uint64_t operand_address(const CUmemcpy3DOperand& operand) noexcept {
    return operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? bits(operand.op.array.array)
                                                        : operand.op.ptr.ptr;
  }
};

// Arguments: (destination, value, count, [stream]).
template <int kElementBytes, int kStream = kNone>
struct Sets {
  using Record = trace::Set;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.destination = input<0>(a...);
    record.value = static_cast<std::uint32_t>(input<1>(a...));
    record.element_bytes = kElementBytes;
    record.bytes = input<2>(a...) * kElementBytes;
    record.stream = input<kStream>(a...);
  }
};

// Arguments: (destination, pitch, value, width, height, [stream]).
template <int kElementBytes, int kStream = kNone>
struct SetsRegion {
  using Record = trace::Set;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.destination = input<0>(a...);
    record.value = static_cast<std::uint32_t>(input<2>(a...));
    record.element_bytes = kElementBytes;
    record.bytes = input<3>(a...) * input<4>(a...) * kElementBytes;
    record.stream = input<kStream>(a...);
  }
};

}  // namespace gpumemtrace::preload::effects
