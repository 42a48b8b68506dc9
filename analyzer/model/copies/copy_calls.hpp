// SPDX-License-Identifier: Apache-2.0
// The copies and memory sets of one process: the memory at their ends, their sums, and the copies
// that moved bytes in vain.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/model/accounts/live_allocation.hpp"
#include "analyzer/model/copies/transfers.hpp"
#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

// The part of each allocation of pinned host memory that the program's copies used.
class PinnedUse {
 public:
  // Notes that a copy read or wrote `bytes` bytes from the start of the allocation on.
  void add(const LiveAllocation& memory, std::uint64_t bytes) {
    const auto key = std::make_pair(memory.address, memory.born);
    auto found = used_bytes_.find(key);
    if (found == used_bytes_.end()) {
      if (used_bytes_.size() == kMaxAllocations) return;
      found = used_bytes_.emplace(key, 0).first;
    }
    found->second = std::max(found->second, std::min(bytes, memory.bytes));
  }
  // Bytes from the start of the allocation on that copies used; 0 if no copy began at the start of
  // the allocation, or if there were too many allocations.
  [[nodiscard]] std::uint64_t bytes_of(const LiveAllocation& memory) const {
    const auto found = used_bytes_.find({memory.address, memory.born});
    return found == used_bytes_.end() ? 0 : found->second;
  }

 private:
  static constexpr std::size_t kMaxAllocations = 1 << 16;

  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> used_bytes_;
};

// Finds copies of content that the same call site has sent to the same device before, by the
// content's hash.

// - If several contents share a slot, the last one counts, so some repeats may be missed.
// - Only recordings that hash the content of copies have repeats.
class RepeatedCopies {
 public:
  // True if the last copy in the content's slot had this row, size and content.
  [[nodiscard]] bool comes_again(std::uint32_t row, std::uint64_t bytes, std::uint64_t content) {
    if (slots_.empty()) slots_.resize(std::size_t{1} << kSlotBits);
    const std::uint64_t key = (content ^ (bytes + (std::uint64_t{row} << 40))) * kSpread;
    std::uint64_t& slot = slots_[static_cast<std::size_t>(key >> (64 - kSlotBits))];
    const bool again = slot == key;
    slot = key;
    return again;
  }

 private:
  static constexpr std::size_t kSlotBits = 14;
  static constexpr std::uint64_t kSpread = 0x9E37'79B9'7F4A'7C15u;

  std::vector<std::uint64_t> slots_;
};

// Finds copies to the device that bring back what a copy to the host has just taken, by addresses
// and sizes alone.

// - The content of the buffers is not known: a program may have changed it on the host.
// - If several copies to the host share a slot, the last one counts, so some round trips may be
//   missed.
class RoundTrips {
 public:
  // The two buffers of a copy, in either direction.
  struct CopyEnds {
    std::uint64_t device_address = 0;
    std::uint64_t host_address = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const CopyEnds&, const CopyEnds&) = default;
  };

  // The copy to the host: the transfer row in which it was counted, the end and the duration of its
  // call, and the time of birth of the GPU memory that it read; 0 = not known.
  struct CopyToHost {
    std::uint32_t row = 0;
    std::uint64_t end_ticks = 0;
    std::uint64_t host_ticks = 0;
    std::uint64_t memory_born = 0;
  };

  void add_copy_to_host(const CopyEnds& ends, const CopyToHost& copy) {
    trips_[slot_of(ends)] = {ends, copy};
  }
  // Returns the copy to the host whose bytes the copy to the device brings back, and forgets it.
  [[nodiscard]] std::optional<CopyToHost> take_matching_copy_to_host(const CopyEnds& ends) {
    Trip& known = trips_[slot_of(ends)];
    if (ends.bytes == 0 || !(known.ends == ends)) return std::nullopt;
    const CopyToHost copy = known.copy;
    known = {};
    return copy;
  }

 private:
  struct Trip {
    CopyEnds ends;
    CopyToHost copy;
  };

  static constexpr std::size_t kSlotBits = 10;

  static std::size_t slot_of(const CopyEnds& ends) {
    const std::uint64_t mixed = (ends.host_address + (ends.bytes << 20)) * 0x9E37'79B9'7F4A'7C15u;
    return static_cast<std::size_t>(mixed >> (64 - kSlotBits));
  }

  std::array<Trip, std::size_t{1} << kSlotBits> trips_{};
};

class CopyCalls {
 public:
  explicit CopyCalls(ProcessMemory& memory) : memory_(memory) {}
  CopyCalls(const CopyCalls&) = delete;
  CopyCalls& operator=(const CopyCalls&) = delete;

  // False for calls that failed, which moved nothing, and captured ones, which move bytes only when
  // their graph is launched.
  [[nodiscard]] static bool moved_something(const trace::CallHeader& call) {
    return call.record.result == trace::kCudaSuccess &&
           (call.record.flags & trace::kFlagCaptured) == 0;
  }
  // Counts a call that moved something. Returns its row in transfers().
  std::uint32_t add(const trace::Copy& call);
  std::uint32_t add(const trace::Set& call);
  // Counts several calls, of which a checkpoint has the sums.
  void restore(const trace::Totals& totals);

  [[nodiscard]] const Transfers& transfers() const { return transfers_; }
  [[nodiscard]] Transfers& transfers() { return transfers_; }
  [[nodiscard]] const PinnedUse& pinned_use() const { return pinned_use_; }

 private:
  [[nodiscard]] Location locate(std::uint64_t address, trace::EndType said,
                                std::int32_t context_device) const;
  void add_round_trip(const trace::Copy& call, Direction direction, std::uint32_t row,
                      std::uint64_t host_ticks);
  // Time of birth of the block or allocation that begins at the address; 0 if none begins there.
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
