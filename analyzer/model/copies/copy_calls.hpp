// SPDX-License-Identifier: Apache-2.0
// The copies and memory sets of one process: their ends, their sums, and which of them are in vain.
#pragma once

#include <cstdint>

#include "analyzer/model/copies/pinned_use.hpp"
#include "analyzer/model/copies/repeated_copies.hpp"
#include "analyzer/model/copies/round_trips.hpp"
#include "analyzer/model/copies/transfers.hpp"
#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class CopyCalls {
 public:
  explicit CopyCalls(ProcessMemory& memory) : memory_(memory) {}
  CopyCalls(const CopyCalls&) = delete;
  CopyCalls& operator=(const CopyCalls&) = delete;

  // Calls that failed moved nothing; captured ones move when their graph is launched.
  [[nodiscard]] static bool moved_something(const trace::CallHeader& call) {
    return call.record.result == trace::kCudaSuccess &&
           (call.record.flags & trace::kFlagCaptured) == 0;
  }
  // Calls that moved something. Returns the row of transfers() that it counts in.
  std::uint32_t add(const trace::Copy& call);
  std::uint32_t add(const trace::Set& call);
  // Several calls, of which a checkpoint has the sums.
  void restore(const trace::Totals& totals);

  [[nodiscard]] const Transfers& transfers() const { return transfers_; }
  [[nodiscard]] Transfers& transfers() { return transfers_; }
  [[nodiscard]] const PinnedUse& pinned_use() const { return pinned_use_; }

 private:
  [[nodiscard]] Location locate(std::uint64_t address, trace::EndType said,
                                std::int32_t context_device) const;
  void add_round_trip(const trace::Copy& call, Direction direction, std::uint32_t row,
                      std::uint64_t host_ticks);
  // When the block or allocation that begins there was made; 0 if none does.
  [[nodiscard]] std::uint64_t birth_of(std::uint64_t address);
  void add_pinned_use(std::uint64_t address, std::uint64_t bytes);
  static void add_repetition(const trace::Copy& call, TransferRow& row);
  void add_content(const trace::Copy& call, std::uint32_t row);

  ProcessMemory& memory_;
  Transfers transfers_;
  RoundTrips round_trips_;
  RepeatedCopies repeated_copies_;
  PinnedUse pinned_use_;
};

}  // namespace gpumemtrace::analyzer
