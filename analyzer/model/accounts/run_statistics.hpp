// SPDX-License-Identifier: Apache-2.0
// Statistics of one process's recording, and the contradictions found in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct RunStatistics {
  // number of records of calls, framework blocks and out-of-memory reports
  std::uint64_t events = 0;
  std::uint64_t first_time = 0;  // all times here are model times
  std::uint64_t last_time = 0;
  bool exit_seen = false;
  // time at which a thread was about to exec, if it recorded nothing after that
  std::uint64_t exec_time = 0;
  std::string stopped_because;  // why recording stopped; empty: it went on until the end
  std::uint64_t pauses = 0;
  trace::Gap dropped;  // sums over all gaps in the recording
  std::uint64_t unfinished_calls = 0;
  std::uint64_t order_repaired = 0;
  std::uint64_t live_address_allocated = 0;
  std::uint64_t unknown_frees = 0;
  std::uint64_t unknown_context = 0;
  std::uint64_t framework_mismatch = 0;
  std::uint64_t implicit_frees = 0;
  std::uint64_t compacted_records = 0;  // records that a checkpoint replaced
  // the checkpoint has replaced the records before this time; 0 = there is no checkpoint
  std::uint64_t checkpoint_time = 0;
  bool peaks_are_inexact = false;  // graphs allocated memory before the checkpoint

  // True if records of allocations are missing, so that an unknown address may belong to any
  // memory.
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
  // Adds the sums of a checkpoint, which has replaced the records before the time `cut`.
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
