// SPDX-License-Identifier: Apache-2.0
// Copies and memory sets, counted by kind.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/memory/covered_ranges.hpp"
#include "trace/ledger/copy_locations.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::Location;
using ledger::MemoryClass;

[[nodiscard]] Direction direction_of(const Location& source, const Location& destination);

struct TransferKey {
  CallSite site;
  std::int32_t device = kUnknownDevice;
  Direction direction = Direction::kUnknown;
  MemoryClass source = MemoryClass::kUnknown;
  MemoryClass destination = MemoryClass::kUnknown;
  bool asynchronous = false;
  bool is_set = false;
  bool in_graph = false;  // launches carried it out; no call of its own

  friend auto operator<=>(const TransferKey&, const TransferKey&) = default;
};

// The smallest and the largest of some numbers.
struct Extremes {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;

  void add(std::uint64_t value) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  void add(const Extremes& more) {
    if (more.least < least) least = more.least;
    if (more.most > most) most = more.most;
  }
};

// The times of CUPTI's records that were joined to calls of a row.
struct GpuTimes {
  std::uint64_t calls = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ticks = 0;       // sum of the records' durations
  std::uint64_t busy_ticks = 0;  // for each call, from its first record's start to its last's end
  std::uint64_t overlapped_ticks = 0;  // the part of `ticks` while kernels ran on the device
  Extremes record_ticks;

  void add(const GpuTimes& more) {
    calls += more.calls;
    records += more.records;
    bytes += more.bytes;
    ticks += more.ticks;
    busy_ticks += more.busy_ticks;
    overlapped_ticks += more.overlapped_ticks;
    record_ticks.add(more.record_ticks);
  }
};

// Copies of content that the same call site had sent before.
struct Repeats {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_ticks = 0;

  void add(const Repeats& more) {
    count += more.count;
    bytes += more.bytes;
    host_ticks += more.host_ticks;
  }
};

// Copies up that RoundTrips saw bring back what a copy down had taken.
struct Returns {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t up_ticks = 0;        // in the calls of these copies
  std::uint64_t down_ticks = 0;      // in those of their ways down
  std::uint64_t away_ticks = 0;      // between the two calls
  std::uint64_t to_same_memory = 0;  // of them, those whose GPU memory stayed allocated meanwhile
  std::uint64_t to_new_memory = 0;   // or had been freed; of the rest it is not known

  void add(const Returns& more) {
    count += more.count;
    bytes += more.bytes;
    up_ticks += more.up_ticks;
    down_ticks += more.down_ticks;
    away_ticks += more.away_ticks;
    to_same_memory += more.to_same_memory;
    to_new_memory += more.to_new_memory;
  }
};

struct TransferRow {
  TransferKey key;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_ticks = 0;
  std::uint64_t timed_calls = 0;      // of them, those whose time is their own
  Extremes sizes;                     // of single copies
  Extremes call_ticks;                // of single calls
  Extremes times;                     // from the start of the first call to the end of the last
  bool single_ones_are_gone = false;  // a checkpoint has sums of some alone
  Returns returned;                   // of these copies
  std::uint32_t down_row = 0;         // in which the first of their ways down was counted
  std::uint64_t hashed_count = 0;     // of these copies, those whose content has a hash
  Repeats repeats;                    // of those, whose content RepeatedCopies has seen before
  // For copies with pageable memory: bytes at device addresses to which the row had copied before.
  // A loop has many of them, loading a model has none.
  std::uint64_t repeated_bytes = 0;
  CoveredRanges device_ranges;
  GpuTimes gpu;
};

class Transfers {
 public:
  // One copy. `host_ticks` are 0 if the time of the call is another copy's. Returns the row's
  // index, which stays.
  std::uint32_t count(const TransferKey& key, std::uint64_t bytes, std::uint64_t host_ticks) {
    const std::uint32_t index = row_of(key);
    TransferRow& row = rows_[index];
    ++row.count;
    row.bytes += bytes;
    row.host_ticks += host_ticks;
    row.sizes.add(bytes);
    if (host_ticks == 0) return index;
    ++row.timed_calls;
    row.call_ticks.add(host_ticks);
    return index;
  }
  // Several copies, of which a checkpoint has the sums.
  void restore(const TransferKey& key, std::uint64_t bytes, std::uint64_t host_ticks,
               std::uint64_t count) {
    TransferRow& row = rows_[row_of(key)];
    row.count += count;
    row.bytes += bytes;
    row.host_ticks += host_ticks;
    row.single_ones_are_gone = true;
  }
  [[nodiscard]] TransferRow& row(std::uint32_t index) { return rows_[index]; }
  [[nodiscard]] const std::vector<TransferRow>& rows() const { return rows_; }

 private:
  struct Cached {
    TransferKey key;
    std::uint32_t row = 0;
    bool valid = false;
  };

  std::uint32_t row_of(const TransferKey& key) {
    const std::size_t slot = slot_of(
        key.site, static_cast<unsigned>(key.source) * 8 + static_cast<unsigned>(key.destination));
    Cached& cached = cache_[slot];
    if (!cached.valid || !(cached.key == key)) cached = {key, find_or_add(key), true};
    return cached.row;
  }
  std::uint32_t find_or_add(const TransferKey& key);

  std::vector<TransferRow> rows_;
  std::map<TransferKey, std::uint32_t> index_;
  std::array<Cached, 256> cache_{};
};

}  // namespace gpumemtrace::analyzer
