// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/fold_pools.hpp"

namespace gpumemtrace::preload {

std::uint32_t FoldPools::find(std::uint64_t handle) const noexcept {
  for (std::uint32_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i].handle == handle && !pools_[i].is_gone) return i;
  }
  return kNone;
}

std::uint32_t FoldPools::add(const FoldPool& pool) noexcept {
  return pools_.push(pool) ? static_cast<std::uint32_t>(pools_.size() - 1) : kNone;
}

std::uint32_t FoldPools::default_pool_of(std::int32_t device) noexcept {
  for (std::uint32_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i].is_default && pools_[i].device == device) return i;
  }
  FoldPool pool;
  pool.device = device;
  pool.is_default = true;
  return add(pool);
}

std::uint32_t FoldPools::pool_of(std::uint64_t handle, std::int32_t device) noexcept {
  if (handle == 0) {
    for (std::uint32_t i = 0; i < pools_.size(); ++i) {
      if (pools_[i].is_current && pools_[i].device == device) return i;
    }
    return default_pool_of(device);
  }
  if (const std::uint32_t known = find(handle); known != kNone) return known;
  FoldPool pool;
  pool.handle = handle;
  pool.device = device;
  return add(pool);
}

bool FoldPools::bind_default(std::int32_t device, std::uint64_t handle) noexcept {
  if (handle == 0 || find(handle) != kNone) return false;
  const std::uint32_t pool = default_pool_of(device);
  if (pool != kNone) pools_[pool].handle = handle;
  return true;
}

void FoldPools::allocate(std::uint32_t index, std::uint64_t bytes) noexcept {
  FoldPool& pool = pools_[index];
  pool.used_bytes += bytes;
  if (pool.used_bytes > pool.reserved_bytes) hold(index, pool.used_bytes);
}

void FoldPools::hold(std::uint32_t index, std::uint64_t reserved_bytes) noexcept {
  FoldPool& pool = pools_[index];
  pool.reserved_bytes = reserved_bytes;
  if (reserved_bytes > pool.reserved_peak_bytes) pool.reserved_peak_bytes = reserved_bytes;
}

bool FoldPools::note_sample(const trace::PoolSample& sample) noexcept {
  bind_default(sample.device, sample.pool);
  const std::uint32_t index = pool_of(sample.pool, sample.device);
  if (index == kNone) return false;
  const std::uint64_t used_bytes = pools_[index].used_bytes;
  hold(index, sample.reserved_high);
  hold(index, sample.reserved_current > used_bytes ? sample.reserved_current : used_bytes);
  return true;
}

bool FoldPools::set_current(const trace::Pool& call) noexcept {
  const std::uint32_t index = pool_of(call.pool, call.device);
  if (index == kNone || pools_[index].is_current) return false;
  for (FoldPool& pool : pools_) {
    if (pool.device == call.device) pool.is_current = false;
  }
  pools_[index].is_current = true;
  return true;
}

bool FoldPools::note_call(const trace::Pool& call) noexcept {
  switch (call.operation) {
    case trace::PoolOperation::kCreate: {
      pool_of(call.pool, call.device);
      return true;
    }
    case trace::PoolOperation::kImport: {
      const std::uint32_t index = pool_of(call.pool, call.device);
      if (index != kNone) pools_[index].is_imported = true;
      return true;
    }
    case trace::PoolOperation::kGetDefault:
    case trace::PoolOperation::kGetCurrent: {
      for (const FoldPool& pool : pools_) {
        const bool set = pool.is_current && pool.device == call.device;
        if (set && call.operation == trace::PoolOperation::kGetCurrent) return false;
      }
      return bind_default(call.device, call.pool);
    }
    case trace::PoolOperation::kSetCurrent: {
      return set_current(call);
    }
    case trace::PoolOperation::kDestroy: {
      const std::uint32_t index = find(call.pool);
      if (index == kNone) return true;
      pools_[index].reserved_bytes = pools_[index].used_bytes;
      pools_[index].is_gone = true;
      return true;
    }
    default: {
      return false;
    }
  }
}

}  // namespace gpumemtrace::preload
