// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/pools.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

std::uint32_t Pools::add_pool(std::uint64_t handle, std::int32_t device) {
  PoolState state;
  state.handle = handle;
  state.device = device;
  state.sums = &sums_[device];
  pools_.push_back(state);
  return static_cast<std::uint32_t>(pools_.size() - 1);
}

std::uint32_t Pools::default_pool_of(std::int32_t device) {
  const auto found = default_of_.find(device);
  if (found != default_of_.end()) return found->second;
  const std::uint32_t pool = add_pool(0, device);
  pools_[pool].is_default = true;
  default_of_[device] = pool;
  return pool;
}

std::uint32_t Pools::look_up(std::uint64_t handle, std::int32_t device) {
  if (handle == 0) {
    const auto current = current_of_.find(device);
    return current == current_of_.end() ? default_pool_of(device) : current->second;
  }
  const auto found = by_handle_.find(handle);
  if (found != by_handle_.end()) return found->second;
  const std::uint32_t pool = add_pool(handle, device);
  by_handle_[handle] = pool;
  return pool;
}

void Pools::bind_default(std::int32_t device, std::uint64_t handle) {
  if (handle == 0 || by_handle_.count(handle) != 0) return;
  const std::uint32_t pool = default_pool_of(device);
  pools_[pool].handle = handle;
  by_handle_[handle] = pool;
  last_pool_ = 0;
}

bool Pools::set_reserved(PoolState& state, std::uint64_t bytes) {
  if (state.sums != nullptr) state.sums->reserved_bytes += bytes - state.reserved_bytes;
  const bool changed = bytes != state.reserved_bytes;
  state.reserved_bytes = bytes;
  state.reserved_peak_bytes = std::max(state.reserved_peak_bytes, bytes);
  return changed;
}

bool Pools::note_sample(const trace::PoolSample& sample, std::uint64_t now) {
  // A pool that nobody created is the one that the device came with.
  if (by_handle_.count(sample.pool) == 0) bind_default(sample.device, sample.pool);
  PoolState& state = pools_[pool_of(sample.pool, sample.device)];
  state.sampled = true;
  state.reserved_peak_bytes = std::max(state.reserved_peak_bytes, sample.reserved_high);
  // What is in use is reserved: a smaller number was read before the newest allocations.
  const bool changed = set_reserved(state, std::max(sample.reserved_current, state.used_bytes));
  if (state.sums != nullptr && state.sums->reserved_bytes > state.sums->most.reserved_bytes) {
    state.sums->most = {now, state.sums->used_bytes, state.sums->reserved_bytes};
  }
  return changed;
}

PoolState& Pools::create(const trace::Pool& call, std::uint64_t now) {
  PoolState& state = pools_[look_up(call.pool, call.device)];
  state.created_at = site_of(call.call);
  state.created_time = now;
  return state;
}

bool Pools::note_call(const trace::Pool& call, std::uint64_t now) {
  last_pool_ = 0;
  switch (call.operation) {
    case trace::PoolOperation::kCreate: {
      create(call, now);
      return false;
    }
    case trace::PoolOperation::kImport: {
      // Another process's memory: never summed here.
      create(call, now).sums = nullptr;
      return false;
    }
    case trace::PoolOperation::kGetDefault: {
      bind_default(call.device, call.pool);
      return false;
    }
    case trace::PoolOperation::kGetCurrent: {
      if (current_of_.count(call.device) == 0) bind_default(call.device, call.pool);
      return false;
    }
    case trace::PoolOperation::kSetCurrent: {
      current_of_[call.device] = look_up(call.pool, call.device);
      return false;
    }
    case trace::PoolOperation::kDestroy: {
      const auto found = by_handle_.find(call.pool);
      if (found == by_handle_.end()) return false;
      PoolState& state = pools_[found->second];
      by_handle_.erase(found);
      state.is_destroyed = true;
      state.destroyed_at = site_of(call.call);
      return set_reserved(state, state.used_bytes);
    }
    case trace::PoolOperation::kTrim:
    case trace::PoolOperation::kSetAttribute:
    case trace::PoolOperation::kExport: {
      return false;
    }
  }
  return false;
}

}  // namespace gpumemtrace::analyzer
