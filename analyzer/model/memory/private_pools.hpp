// SPDX-License-Identifier: Apache-2.0
// Private pools of the framework's allocator: the captures of CUDA graphs that share a pool, and
// the bytes of each pool. Traces have no ids of pools, so a pool is known by the captures that
// allocated from it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::CallSite;

// The bytes of a pool at one time.
struct PoolBytes {
  std::uint64_t reserved = 0;
  std::uint64_t allocated = 0;
};

struct PrivatePool {
  std::int32_t device = -1;
  std::uint32_t merged_into = 0;  // id of the pool into which this one was merged; 0 = none
  CallSite made_at;               // call site that began the pool's first capture
  std::uint64_t time = 0;         // model time at which that capture began
  std::uint64_t captures = 0;     // number of captures that allocated from the pool
  PoolBytes now;
  PoolBytes peak;                             // reserved and allocated bytes, each at its own time
  std::uint64_t allocated_after_capture = 0;  // allocated bytes when the pool's last capture ended
  // executable graphs instantiated from the pool's captures
  std::uint64_t live_graphs = 0;
  PoolBytes at_mark;  // bytes at the last mark; valid if `mark` is the present mark of PrivatePools
  std::uint64_t mark = 0;
};

// - Ids of pools begin at 1 and stay valid. root_of() of a merged pool is the pool that has the
//   bytes and counts of both.
// - Two pools are merged if a capture allocates from segments of both.
class PrivatePools {
 public:
  // Takes a call about graphs, also if it failed: a capture that became invalid ends with a failed
  // call.
  void apply(const trace::Graph& call, std::uint32_t writer, const CallSite& site,
             std::uint64_t now);
  // The capture for which the framework allocates the block, or nullptr.
  struct Capture;
  [[nodiscard]] Capture* capture_of(const trace::Block& block, std::uint32_t writer);
  // The pool from which the capture allocates on the device; makes one if there is none.
  [[nodiscard]] std::uint32_t pool_of(Capture& capture, std::int32_t device);
  // Notes that the capture allocates from the pool, too. Returns the pool to which both belong from
  // now on.
  std::uint32_t join(Capture& capture, std::int32_t device, std::uint32_t pool);

  void grow(std::uint32_t id, std::uint64_t reserved, std::uint64_t allocated);
  void shrink(std::uint32_t id, std::uint64_t reserved, std::uint64_t allocated);
  // Marks the present time: the present bytes of all pools are their bytes at the mark.
  void set_mark() { ++mark_; }
  [[nodiscard]] PoolBytes at_mark(std::uint32_t id) const {
    const PrivatePool& pool = pools_[id - 1];
    return pool.mark == mark_ ? pool.at_mark : pool.now;
  }
  [[nodiscard]] std::uint32_t root_of(std::uint32_t id) const {
    while (id != 0 && pools_[id - 1].merged_into != 0) id = pools_[id - 1].merged_into;
    return id;
  }
  // Calls visit(id, pool) for each pool that is not merged into another one.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t id = 1; id <= pools_.size(); ++id) {
      if (pools_[id - 1].merged_into == 0) visit(id, pools_[id - 1]);
    }
  }

 private:
  using ByDevice = std::map<std::int32_t, std::uint32_t>;

  void end_capture(std::uint64_t stream, std::uint64_t graph);
  void remove_executable(std::uint64_t executable);
  void count_graphs(const ByDevice& pools, bool is_live);
  PrivatePool& pool_before_change(std::uint32_t id);
  std::uint32_t merge(std::uint32_t id, std::uint32_t other);

  std::vector<PrivatePool> pools_;
  std::vector<Capture> open_;
  std::unordered_map<std::uint64_t, ByDevice> graphs_;
  std::unordered_map<std::uint64_t, ByDevice> executables_;
  std::uint64_t mark_ = 0;
};

struct PrivatePools::Capture {
  std::uint64_t stream = 0;
  std::uint32_t writer = 0;
  CallSite site;
  std::uint64_t time = 0;
  bool has_block_stream = false;
  std::int64_t block_stream = 0;  // the framework's number of the captured stream
  ByDevice pools;
};

}  // namespace gpumemtrace::analyzer
