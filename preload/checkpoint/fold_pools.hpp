// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory pools during a fold: whose memory an allocation is, and what pools hold.
#pragma once

#include <cstdint>

#include "preload/base/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

struct FoldPool {
  std::uint64_t handle = 0;  // 0 = a device's default pool whose handle was not seen yet
  std::int32_t device = -1;
  std::uint64_t used_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_peak_bytes = 0;
  bool is_default = false;
  bool is_current = false;  // the device's, set by the program
  bool is_imported = false;
  bool is_gone = false;  // destroyed: the handle may come again
};

// Keeps the rules of analyzer/model/memory/pools.hpp. Pools are few and created on demand; indexes
// are stable.
class FoldPools {
 public:
  // The pool that an allocation comes from; handle 0 stands for the device's current one.
  // kNone without memory.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t pool_of(std::uint64_t handle, std::int32_t device) noexcept;

  void allocate(std::uint32_t pool, std::uint64_t bytes) noexcept;
  void hold(std::uint32_t pool, std::uint64_t reserved_bytes) noexcept;
  void free(std::uint32_t pool, std::uint64_t bytes) noexcept { pools_[pool].used_bytes -= bytes; }
  // False where there is no memory.
  [[nodiscard]] bool note_sample(const trace::PoolSample& sample) noexcept;
  // True where the analysis needs the call: it says which pool is whose.
  bool note_call(const trace::Pool& call) noexcept;

  FoldPool& pool(std::uint32_t index) noexcept { return pools_[index]; }
  const MappedArray<FoldPool>& pools() const noexcept { return pools_; }

 private:
  std::uint32_t find(std::uint64_t handle) const noexcept;
  std::uint32_t add(const FoldPool& pool) noexcept;
  std::uint32_t default_pool_of(std::int32_t device) noexcept;
  bool bind_default(std::int32_t device, std::uint64_t handle) noexcept;
  bool set_current(const trace::Pool& call) noexcept;

  MappedArray<FoldPool> pools_;
};

}  // namespace gpumemtrace::preload
