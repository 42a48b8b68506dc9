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
  bool in_graph = false;  // launches of a graph carried it out; it had no call of its own

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

// The GPU's times of the calls of a row, from CUPTI's records that were joined to those calls.
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

// Copies of content that the same call site had sent to the same device before.
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

// Copies to the device that brought back what a copy to the host had taken, found by RoundTrips.
struct Returns {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t to_device_ticks = 0;  // spent in the calls of the copies to the device
  std::uint64_t to_host_ticks = 0;    // spent in the calls of the copies to the host
  std::uint64_t away_ticks = 0;       // spent between the two calls
  std::uint64_t to_same_memory = 0;   // copies whose GPU memory stayed allocated between the calls
  // copies whose GPU memory was freed between the calls; not known for copies in neither count
  std::uint64_t to_new_memory = 0;

  void add(const Returns& more) {
    count += more.count;
    bytes += more.bytes;
    to_device_ticks += more.to_device_ticks;
    to_host_ticks += more.to_host_ticks;
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
  std::uint64_t timed_calls = 0;   // number of calls whose time is not shared with other copies
  Extremes sizes;                  // least and most bytes of a copy
  Extremes call_ticks;             // least and most ticks of a call
  Extremes times;                  // start of the first call and end of the last one
  bool has_restored_sums = false;  // some copies are known only as sums from a checkpoint
  Returns returned;  // copies of this row that brought back bytes of a copy to the host
  // row of the copy to the host whose bytes the first copy in `returned` brought back
  std::uint32_t to_host_row = 0;
  std::uint64_t hashed_count = 0;  // copies of this row whose content has a hash
  // hashed copies whose content RepeatedCopies had seen before
  Repeats repeats;
  // For copies with pageable memory: bytes at device addresses that earlier copies of this row had
  // read or written. Copies in a loop have many of these bytes, loading a model has none.
  std::uint64_t repeated_bytes = 0;
  CoveredRanges device_ranges;
  GpuTimes gpu;
};

class Transfers {
 public:
  // Counts one copy. `host_ticks` is 0 if the time of the call is counted for another copy. Returns
  // the index of the row, which does not change.
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
  // Counts several copies, of which a checkpoint has the sums.
  void restore(const TransferKey& key, std::uint64_t bytes, std::uint64_t host_ticks,
               std::uint64_t count) {
    TransferRow& row = rows_[row_of(key)];
    row.count += count;
    row.bytes += bytes;
    row.host_ticks += host_ticks;
    row.has_restored_sums = true;
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
