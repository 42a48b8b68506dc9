// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory pools: their devices, and the bytes that each reserves from the driver.
#pragma once

#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The sum over all pools of a device at one sample.
struct SampledPools {
  std::uint64_t time = 0;  // model time; 0 = there was no sample
  std::uint64_t used_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

// Sums over the pools of a device, without pools imported from other processes.
struct PoolSums {
  std::uint64_t used_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  SampledPools most;  // the sample at which the device's pools held most
};

struct PoolState {
  std::uint64_t handle = 0;  // 0 = a device's default pool, the handle of which was not seen yet
  std::int32_t device = kUnknownDevice;
  bool is_default = false;
  bool is_imported = false;  // the pool's memory is another process's: it is never summed here
  bool is_destroyed = false;
  bool sampled = false;          // the driver was asked for the pool's bytes at least once
  std::uint64_t used_bytes = 0;  // sum of the pool's live allocations
  // Bytes of the device that the pool holds: those of the last sample, or those in use if these are
  // more.
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_peak_bytes = 0;
  // the call of the program that created or imported the pool, if any
  CallSite created_at;
  std::uint64_t created_time = 0;  // model time of that call; 0 = there was none
  CallSite destroyed_at;
};

// - The stream-ordered pools of a process, added when a record first names them. A pool's index
//   never changes; index 0 is reserved for a pool of no device.
// - failed() if the system had no memory; the numbers are worthless then.
class Pools {
 public:
  Pools() { add_pool(0, kUnknownDevice); }

  // The pool that an allocation comes from; handle 0 stands for the device's current one.
  [[nodiscard]] std::uint32_t pool_of(std::uint64_t handle, std::int32_t device) {
    if (handle == last_handle_ && device == last_device_ && last_pool_ != 0) return last_pool_;
    last_pool_ = look_up(handle, device);
    last_handle_ = handle;
    last_device_ = device;
    return last_pool_;
  }

  // The pool that a checkpoint names: handle 0 is the device's default pool. If several pools had
  // the handle, one after the other, the last of them.
  [[nodiscard]] std::uint32_t named(std::uint64_t handle, std::int32_t device);

  // allocate(), apply_call() and restore() return true if the bytes that the device's pools hold
  // have changed.
  [[nodiscard]] bool allocate(std::uint32_t pool, std::uint64_t bytes) {
    PoolState& state = pools_[pool];
    state.used_bytes += bytes;
    if (PoolSums* const sums = sums_behind(state)) sums->used_bytes += bytes;
    return state.used_bytes > state.reserved_bytes && set_reserved(state, state.used_bytes);
  }
  void free(std::uint32_t pool, std::uint64_t bytes) {
    PoolState& state = pools_[pool];
    state.used_bytes -= bytes;
    if (PoolSums* const sums = sums_behind(state)) sums->used_bytes -= bytes;
  }
  // Applies a call that creates or destroys a pool, or sets or gets a device's current pool.
  [[nodiscard]] bool apply_call(const trace::Pool& call, std::uint64_t now);
  // Returns by how many bytes the device's pools hold more than before the sample; modulo 2^64.
  [[nodiscard]] std::uint64_t apply_sample(const trace::PoolSample& sample, std::uint64_t now);
  // Applies a sample that a checkpoint retained: it makes the pool known, and nothing else.
  void restore_sample(const trace::PoolSample& sample);
  // Restores a peak of the scope kPoolReserved: the bytes that the pool held at the cut (the time
  // up to which a checkpoint replaces records) and the most that it held before. Scope
  // kPoolSamples: the sample before the cut at which the device's pools held most.
  [[nodiscard]] bool restore(const trace::Peak& peak);
  // Calls visit(peak), which may set other fields, for every peak that restore() needs.
  template <class Visit>
  void for_each_peak(Visit&& visit) const;

  // True if a successful call changes which pool belongs to which device, so that later records
  // cannot be understood without it. To be asked before the call is applied.
  [[nodiscard]] bool tells_pools_apart(const trace::Pool& call) const;

  [[nodiscard]] const MappedArray<PoolState>& pools() const { return pools_; }
  [[nodiscard]] std::int32_t device_of(std::uint32_t pool) const { return pools_[pool].device; }
  // The device of a sample. A sample of a pool that the program created does not name the device.
  [[nodiscard]] std::int32_t device_of(const trace::PoolSample& sample) {
    return sample.device >= 0 ? sample.device : device_of(pool_of(sample.pool, sample.device));
  }
  [[nodiscard]] PoolSums sums_of(std::int32_t device) const {
    const std::size_t index = find_device(device);
    return index < devices_.size() ? devices_[index].sums : PoolSums{};
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct PoolDevice {
    std::int32_t device = kUnknownDevice;
    std::uint32_t default_pool = 0;  // 0 = the device's default pool is not known
    std::uint32_t current_pool = 0;  // the pool that the program set as current
    PoolSums sums;
  };
  struct NamedPool {
    std::uint64_t handle = 0;
    std::uint32_t pool = 0;
  };

  [[nodiscard]] std::size_t find_device(std::int32_t device) const {
    std::size_t index = 0;
    while (index < devices_.size() && devices_[index].device != device) ++index;
    return index;
  }
  [[nodiscard]] PoolDevice& device_state(std::int32_t device);
  [[nodiscard]] PoolSums* sums_behind(const PoolState& state) {
    const std::size_t index = state.is_imported ? devices_.size() : find_device(state.device);
    return index < devices_.size() ? &devices_[index].sums : nullptr;
  }
  [[nodiscard]] std::uint32_t look_up(std::uint64_t handle, std::int32_t device);
  std::uint32_t default_pool_of(std::int32_t device);
  void bind_default(std::int32_t device, std::uint64_t handle);
  std::uint32_t add_pool(std::uint64_t handle, std::int32_t device);
  [[nodiscard]] PoolState& sampled_pool(const trace::PoolSample& sample);
  void name_pool(std::uint64_t handle, std::uint32_t pool);
  PoolState& create(const trace::Pool& call, std::uint64_t now);
  [[nodiscard]] bool set_reserved(PoolState& state, std::uint64_t bytes);

  MappedArray<PoolState> pools_;
  MappedArray<PoolDevice> devices_;  // there are few devices, so they are searched one by one
  FlatMap<NamedPool, &NamedPool::handle, MappedArray> by_handle_;
  std::uint64_t last_handle_ = 0;
  std::int32_t last_device_ = kUnknownDevice;
  std::uint32_t last_pool_ = 0;
  PoolDevice no_device_;  // returned if there is no memory for a device's state
  bool failed_ = false;
};

template <class Visit>
void Pools::for_each_peak(Visit&& visit) const {
  for (const PoolState& pool : pools_) {
    if (pool.reserved_peak_bytes == 0) continue;
    trace::Peak reserved;
    reserved.scope = trace::PeakScope::kPoolReserved;
    reserved.pool = pool.handle;
    reserved.device = pool.device;
    reserved.bytes = pool.reserved_bytes;
    reserved.pool_reserved = pool.reserved_peak_bytes;
    visit(reserved);
  }
  for (const PoolDevice& device : devices_) {
    const SampledPools& most = device.sums.most;
    if (most.time == 0) continue;
    trace::Peak sampled;
    sampled.scope = trace::PeakScope::kPoolSamples;
    sampled.device = device.device;
    sampled.peak_time = most.time;
    sampled.pool_used = most.used_bytes;
    sampled.pool_reserved = most.reserved_bytes;
    visit(sampled);
  }
}

}  // namespace gpumemtrace::ledger
