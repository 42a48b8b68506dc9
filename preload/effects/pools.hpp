// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory pools.
#pragma once

#include "preload/driver/tracking.hpp"
#include "preload/effects/effect.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

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

// (pool*, device)
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

// (pool, attribute, value*)
struct SetsPoolAttribute {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool pool, CUmemPool_attribute attribute,
                     void* value) noexcept;
};

// (location*, type, pool)
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
