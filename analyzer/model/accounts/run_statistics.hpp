// SPDX-License-Identifier: Apache-2.0
// Statistics of one process's recording, and the contradictions found in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct RunStatistics {
  std::uint64_t events = 0;      // calls, blocks and out-of-memory reports
  std::uint64_t first_time = 0;  // model time, as all times here
  std::uint64_t last_time = 0;
  bool exit_seen = false;
  std::uint64_t exec_time = 0;  // when a thread was about to exec and recorded nothing after it
  std::string stopped_because;  // empty: recording went on until the end
  std::uint64_t pauses = 0;
  trace::Gap dropped;  // sums over all gaps
  std::uint64_t unfinished_calls = 0;
  std::uint64_t order_repaired = 0;
  std::uint64_t live_address_allocated = 0;
  std::uint64_t unknown_frees = 0;
  std::uint64_t unknown_context = 0;
  std::uint64_t framework_mismatch = 0;
  std::uint64_t implicit_frees = 0;
  std::uint64_t compacted_records = 0;  // that a checkpoint replaced
  std::uint64_t checkpoint_time = 0;    // its cut; 0 = there is none
  bool peaks_are_inexact = false;       // graphs allocated memory before a checkpoint's cut

  // Allocations are missing, so an unknown address may be anything.
  [[nodiscard]] bool misses_allocations() const { return pauses != 0 || dropped.allocations != 0; }

  void add(const trace::Gap& gap) {
    dropped.allocations += gap.allocations;
    dropped.frees += gap.frees;
    dropped.copies += gap.copies;
    dropped.blocks += gap.blocks;
    dropped.others += gap.others;
    dropped.stacks += gap.stacks;
    dropped.parts += gap.parts;
  }
  // At the checkpoint's cut.
  void add(const trace::Checkpoint& checkpoint, std::uint64_t cut) {
    events += checkpoint.events;
    compacted_records += checkpoint.records;
    checkpoint_time = cut;
    if (checkpoint.first_time != 0) first_time = std::min(first_time, checkpoint.first_time);
    order_repaired += checkpoint.order_repaired;
    live_address_allocated += checkpoint.live_address_allocated;
    peaks_are_inexact |= checkpoint.inexact != 0;
  }
};

}  // namespace gpumemtrace::analyzer
