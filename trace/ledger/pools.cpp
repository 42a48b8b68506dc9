// SPDX-License-Identifier: Apache-2.0
#include "trace/ledger/pools.hpp"

#include <algorithm>

namespace gpumemtrace::ledger {

Pools::PoolDevice& Pools::device_state(std::int32_t device) {
  const std::size_t index = find_device(device);
  if (index == devices_.size()) {
    PoolDevice state;
    state.device = device;
    if (!devices_.push(state)) {
      failed_ = true;
      return no_device_;
    }
  }
  return devices_[index];
}

std::uint32_t Pools::add_pool(std::uint64_t handle, std::int32_t device) {
  PoolState state;
  state.handle = handle;
  state.device = device;
  if (!pools_.push(state)) {
    failed_ = true;
    return 0;
  }
  const auto pool = static_cast<std::uint32_t>(pools_.size() - 1);
  if (pool != 0) (void)device_state(device);
  return pool;
}

void Pools::name_pool(std::uint64_t handle, std::uint32_t pool) {
  if (by_handle_.insert({handle, pool}) == nullptr) failed_ = true;
}

std::uint32_t Pools::default_pool_of(std::int32_t device) {
  if (const std::uint32_t known = device_state(device).default_pool; known != 0) return known;
  const std::uint32_t pool = add_pool(0, device);
  pools_[pool].is_default = true;
  device_state(device).default_pool = pool;
  return pool;
}

// The index of the pool with the handle, added if it is new; handle 0 stands for the device's
// current pool.
std::uint32_t Pools::look_up(std::uint64_t handle, std::int32_t device) {
  if (handle == 0) {
    const std::uint32_t current = device_state(device).current_pool;
    return current == 0 ? default_pool_of(device) : current;
  }
  if (const NamedPool* const named = by_handle_.find(handle)) return named->pool;
  const std::uint32_t pool = add_pool(handle, device);
  name_pool(handle, pool);
  return pool;
}

std::uint32_t Pools::named(std::uint64_t handle, std::int32_t device) {
  if (handle == 0) return default_pool_of(device);
  if (by_handle_.find(handle) == nullptr) {
    for (std::size_t i = pools_.size(); i-- > 1;) {
      if (pools_[i].handle == handle) return static_cast<std::uint32_t>(i);
    }
  }
  return look_up(handle, device);
}

// Gives the device's default pool its handle, unless the handle is that of a known pool.
void Pools::bind_default(std::int32_t device, std::uint64_t handle) {
  if (handle == 0 || by_handle_.find(handle) != nullptr) return;
  const std::uint32_t pool = default_pool_of(device);
  pools_[pool].handle = handle;
  name_pool(handle, pool);
  last_pool_ = 0;
}

// Sets the bytes that a pool holds, and adds the difference to its device's sums; true if they
// changed.
bool Pools::set_reserved(PoolState& state, std::uint64_t bytes) {
  if (PoolSums* const sums = sums_behind(state)) {
    sums->reserved_bytes += bytes - state.reserved_bytes;
  }
  const bool changed = bytes != state.reserved_bytes;
  state.reserved_bytes = bytes;
  state.reserved_peak_bytes = std::max(state.reserved_peak_bytes, bytes);
  return changed;
}

PoolState& Pools::sampled_pool(const trace::PoolSample& sample) {
  // A pool that no recorded call created is the device's default pool.
  if (by_handle_.find(sample.pool) == nullptr) bind_default(sample.device, sample.pool);
  PoolState& state = pools_[pool_of(sample.pool, sample.device)];
  state.sampled = true;
  return state;
}

void Pools::restore_sample(const trace::PoolSample& sample) { (void)sampled_pool(sample); }

std::uint64_t Pools::apply_sample(const trace::PoolSample& sample, std::uint64_t now) {
  PoolState& state = sampled_pool(sample);
  state.reserved_peak_bytes = std::max(state.reserved_peak_bytes, sample.reserved_high);
  const std::uint64_t before = state.reserved_bytes;
  // Bytes in use are also reserved: if the sample shows fewer, it was read before the newest
  // allocations.
  (void)set_reserved(state, std::max(sample.reserved_current, state.used_bytes));
  PoolSums* const sums = sums_behind(state);
  if (sums == nullptr) return 0;
  if (sums->reserved_bytes > sums->most.reserved_bytes) {
    sums->most = {now, sums->used_bytes, sums->reserved_bytes};
  }
  return state.reserved_bytes - before;
}

bool Pools::restore(const trace::Peak& peak) {
  if (peak.scope == trace::PeakScope::kPoolSamples) {
    SampledPools& most = device_state(peak.device).sums.most;
    if (peak.pool_reserved >= most.reserved_bytes) {
      most = {peak.peak_time, peak.pool_used, peak.pool_reserved};
    }
    return false;
  }
  PoolState& state = pools_[named(peak.pool, peak.device)];
  // Scope kPoolReserved: `bytes` is what the pool held at the cut, the time up to which the
  // checkpoint replaces records; `pool_reserved` is the most that it held before.
  const bool changed = set_reserved(state, std::max(peak.bytes, state.used_bytes));
  state.reserved_peak_bytes = std::max(state.reserved_peak_bytes, peak.pool_reserved);
  return changed;
}

PoolState& Pools::create(const trace::Pool& call, std::uint64_t now) {
  PoolState& state = pools_[look_up(call.pool, call.device)];
  state.created_at = site_of(call.call);
  state.created_time = now;
  return state;
}

bool Pools::tells_pools_apart(const trace::Pool& call) const {
  switch (call.operation) {
    case trace::PoolOperation::kCreate:
    case trace::PoolOperation::kImport:
    case trace::PoolOperation::kDestroy: {
      return true;
    }
    case trace::PoolOperation::kGetDefault: {
      return call.pool != 0 && by_handle_.find(call.pool) == nullptr;
    }
    case trace::PoolOperation::kGetCurrent: {
      const std::size_t device = find_device(call.device);
      const bool was_set = device < devices_.size() && devices_[device].current_pool != 0;
      return !was_set && call.pool != 0 && by_handle_.find(call.pool) == nullptr;
    }
    case trace::PoolOperation::kSetCurrent: {
      const std::size_t device = find_device(call.device);
      const NamedPool* const named = by_handle_.find(call.pool);
      return named == nullptr || device == devices_.size() ||
             devices_[device].current_pool != named->pool;
    }
    case trace::PoolOperation::kTrim:
    case trace::PoolOperation::kSetAttribute:
    case trace::PoolOperation::kExport: {
      return false;
    }
  }
  return false;
}

bool Pools::apply_call(const trace::Pool& call, std::uint64_t now) {
  last_pool_ = 0;
  switch (call.operation) {
    case trace::PoolOperation::kCreate: {
      create(call, now);
      return false;
    }
    case trace::PoolOperation::kImport: {
      create(call, now).is_imported = true;
      return false;
    }
    case trace::PoolOperation::kGetDefault: {
      bind_default(call.device, call.pool);
      return false;
    }
    case trace::PoolOperation::kGetCurrent: {
      if (device_state(call.device).current_pool == 0) bind_default(call.device, call.pool);
      return false;
    }
    case trace::PoolOperation::kSetCurrent: {
      const std::uint32_t pool = look_up(call.pool, call.device);
      device_state(call.device).current_pool = pool;
      return false;
    }
    case trace::PoolOperation::kDestroy: {
      const NamedPool* const named = by_handle_.find(call.pool);
      if (named == nullptr) return false;
      PoolState& state = pools_[named->pool];
      by_handle_.erase(named);
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

}  // namespace gpumemtrace::ledger
