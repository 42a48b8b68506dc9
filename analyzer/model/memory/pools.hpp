// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory pools: who has one, and how much each holds back from the driver.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/levels.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// What the pools of a device held together when the driver was asked.
struct SampledPools {
  std::uint64_t time = 0;  // 0 = it never was
  std::uint64_t used_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

// Sums over the pools of a device, without imported ones.
struct PoolSums {
  std::uint64_t used_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  SampledPools most;  // the sample at which they held most
};

struct PoolState {
  std::uint64_t handle = 0;  // 0 = the device's default pool, its handle not seen yet
  std::int32_t device = kUnknownDevice;
  bool is_default = false;
  std::uint64_t used_bytes = 0;  // sum of the live allocations
  // What the pool holds of the device: the driver's last number, raised where more is in use.
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_peak_bytes = 0;
  bool sampled = false;            // the driver has told at least once
  CallSite created_at;             // where the program created or imported it, if it did
  std::uint64_t created_time = 0;  // and when; 0 = it did not
  bool is_destroyed = false;
  CallSite destroyed_at;
  PoolSums* sums = nullptr;  // nullptr: imported
};

// Pools are created on demand: index 0 of no device is reserved, indexes are stable.
class Pools {
 public:
  Pools() { pools_.emplace_back(); }

  // The pool that an allocation comes from; handle 0 stands for the device's current one.
  [[nodiscard]] std::uint32_t pool_of(std::uint64_t handle, std::int32_t device) {
    if (handle == last_handle_ && device == last_device_ && last_pool_ != 0) return last_pool_;
    last_pool_ = look_up(handle, device);
    last_handle_ = handle;
    last_device_ = device;
    return last_pool_;
  }

  // All return whether what the pools of the device hold has changed.
  bool allocate(std::uint32_t pool, std::uint64_t bytes) {
    PoolState& state = pools_[pool];
    state.used_bytes += bytes;
    if (state.sums != nullptr) state.sums->used_bytes += bytes;
    return state.used_bytes > state.reserved_bytes && set_reserved(state, state.used_bytes);
  }
  void free(std::uint32_t pool, std::uint64_t bytes) {
    PoolState& state = pools_[pool];
    state.used_bytes -= bytes;
    if (state.sums != nullptr) state.sums->used_bytes -= bytes;
  }
  bool note_sample(const trace::PoolSample& sample, std::uint64_t now);
  // What the pool held at a checkpoint's cut, and the most that it held before.
  bool tell_reserved(std::uint64_t handle, std::int32_t device, std::uint64_t bytes,
                     std::uint64_t peak_bytes) {
    PoolState& state = pools_[pool_of(handle, device)];
    if (peak_bytes > state.reserved_peak_bytes) state.reserved_peak_bytes = peak_bytes;
    return bytes > state.reserved_bytes && set_reserved(state, bytes);
  }
  // Creation, destruction and which pool is whose.
  bool note_call(const trace::Pool& call, std::uint64_t now);

  [[nodiscard]] const std::vector<PoolState>& pools() const { return pools_; }
  [[nodiscard]] std::int32_t device_of(std::uint32_t pool) const { return pools_[pool].device; }
  [[nodiscard]] const PoolSums& sums_of(std::int32_t device) const {
    static constexpr PoolSums kNoPools;
    const auto found = sums_.find(device);
    return found == sums_.end() ? kNoPools : found->second;
  }

 private:
  [[nodiscard]] std::uint32_t look_up(std::uint64_t handle, std::int32_t device);
  std::uint32_t default_pool_of(std::int32_t device);
  void bind_default(std::int32_t device, std::uint64_t handle);
  std::uint32_t add_pool(std::uint64_t handle, std::int32_t device);
  PoolState& create(const trace::Pool& call, std::uint64_t now);
  bool set_reserved(PoolState& state, std::uint64_t bytes);

  std::vector<PoolState> pools_;
  std::map<std::int32_t, PoolSums> sums_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_handle_;
  std::map<std::int32_t, std::uint32_t> default_of_;
  std::map<std::int32_t, std::uint32_t> current_of_;
  std::uint64_t last_handle_ = 0;
  std::int32_t last_device_ = kUnknownDevice;
  std::uint32_t last_pool_ = 0;
};

}  // namespace gpumemtrace::analyzer
