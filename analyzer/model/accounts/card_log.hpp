// SPDX-License-Identifier: Apache-2.0
// The log of one process on one card: the memory that its calls hold there over time, and the
// samples of the card's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/model/accounts/live_allocation.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

enum class CardEventKind : std::uint8_t {
  kChange,         // a change of the memory that the process's calls hold
  kSample,         // an answer of the driver to one question about memory
  kListedProcess,  // a row of NVML's process list that belongs to the last sample
  kRoundEnd,       // end of the samples and rows that were taken together
  kCountedLate,    // pool bytes became known that the last sample had counted
  kContext,
  kManaged,       // the process allocates managed memory
  kPrefix,        // a checkpoint gives the memory curves of the run before it
  kSummary,       // a checkpoint gives a peak and samples of the run before it
  kRestoredPeak,  // a checkpoint gives the peak of the bytes that calls held
};

constexpr auto names(CardEventKind) {
  return std::to_array<std::string_view>({"change", "sample", "listed_process", "round_end",
                                          "counted_late", "context", "managed", "prefix", "summary",
                                          "restored_peak"});
}

struct CardLogEvent {
  std::uint64_t time = 0;    // model time
  std::uint32_t number = 0;  // index among the events of this kind
  CardEventKind what = CardEventKind::kChange;
};

// The memory that the process's calls hold on the card after one change.
struct CardLogChange {
  std::uint64_t allocated_bytes = 0;  // bytes that calls got from the driver
  std::uint64_t pool_reserved = 0;
  std::uint64_t rounding_bytes = 0;
  std::uint64_t unknown_bytes = 0;  // largest error of the bytes until the next change

  [[nodiscard]] std::uint64_t physical() const { return allocated_bytes + pool_reserved; }
  [[nodiscard]] std::uint64_t called() const { return physical() + rounding_bytes; }
};

// The part of the process's memory that is in use.
struct CardLogUse {
  std::uint64_t time = 0;
  std::uint64_t framework_allocated = 0;
  std::uint64_t pool_used = 0;
  bool is_at_event = false;  // an event was added to the log while the bytes had these values
};

// A change of the bytes that one group of allocations holds: `bytes` more from the CardLogChange
// with the number `change` on. Adds modulo 2^64, so a decrease is a large number.
struct GroupBytesChange {
  std::uint32_t change = 0;
  std::uint32_t group = 0;
  bool segment = false;
  std::uint64_t bytes = 0;
};

struct CardLogPeak {
  std::uint64_t bytes = 0;
  std::uint64_t time = 0;
};

// - Times of events never fall.
// - Bounded: if there are too many changes, only a few of each aligned interval of 2^k ticks are
//   kept: the first, the lowest, the last, and the highest with and without rounding. The uses
//   (CardLogUse) that are kept are the last of each interval and those with `is_at_event`. All
//   samples are kept.
// - For a process alone on its card nothing is lost by dropping changes: between two samples only
//   its highest change matters.
class CardLog {
 public:
  static constexpr std::size_t kMostChanges = 16'384;
  static constexpr std::size_t kMostUses = 8'192;

  explicit CardLog(std::size_t most_changes = kMostChanges, std::size_t most_uses = kMostUses)
      : most_changes_(most_changes), most_uses_(most_uses) {}

  void change(std::uint64_t now, const CardLogChange& held);
  void sample(std::uint64_t now, const trace::MemorySample& sample) {
    samples_.push_back(sample);
    add(now, CardEventKind::kSample, samples_.size());
  }
  void sample(std::uint64_t now, const trace::ProcessSample& sample) {
    listed_processes_.push_back(sample);
    add(now, CardEventKind::kListedProcess, listed_processes_.size());
  }
  // `more_bytes`: bytes of pools that the last sample had counted but that became known only after
  // it, modulo 2^64.
  void count_in_last_sample(std::uint64_t now, std::uint64_t more_bytes) {
    counted_late_.push_back(more_bytes);
    add(now, CardEventKind::kCountedLate, counted_late_.size());
  }
  void restore_peak(std::uint64_t now, const CardLogPeak& peak) {
    restored_peaks_.push_back(peak);
    add(now, CardEventKind::kRestoredPeak, restored_peaks_.size());
  }
  // Adds an event that consists of its time and kind alone.
  void add(std::uint64_t now, CardEventKind what) { add(now, what, 1); }

  // Sets the bytes in use: of framework blocks or of pools, as `level` says. Other levels have
  // none.
  void set_use(ledger::Level level, std::uint64_t bytes, std::uint64_t now) {
    if (level == ledger::Level::kFramework) {
      set_use({now, bytes, uses_.back().pool_used});
    } else if (level == ledger::Level::kPool) {
      set_use({now, uses_.back().framework_allocated, bytes});
    }
  }
  // Adds to holders() that the allocation from the driver has ended.
  void end(const LiveAllocation& entry);

  [[nodiscard]] const std::vector<CardLogEvent>& events() const { return events_; }
  [[nodiscard]] const std::vector<CardLogChange>& changes() const { return changes_; }
  [[nodiscard]] const std::vector<trace::MemorySample>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<trace::ProcessSample>& listed_processes() const {
    return listed_processes_;
  }
  [[nodiscard]] const std::vector<std::uint64_t>& counted_late() const { return counted_late_; }
  [[nodiscard]] const std::vector<CardLogPeak>& restored_peaks() const { return restored_peaks_; }
  [[nodiscard]] const std::vector<CardLogUse>& uses() const { return uses_; }
  [[nodiscard]] bool uses_are_left_out() const { return uses_are_left_out_; }
  // Changes of bytes by memory that has ended, in no order.
  [[nodiscard]] const std::vector<GroupBytesChange>& holders() const { return holders_; }
  // The change of bytes by memory that is still live: one row for each allocation.
  [[nodiscard]] GroupBytesChange holder_of_live(const LiveAllocation& entry) const {
    return {change_from(entry.born), entry.group, entry.link != 0, entry.bytes};
  }

 private:
  void add(std::uint64_t now, CardEventKind what, std::size_t count) {
    events_.push_back({now, static_cast<std::uint32_t>(count - 1), what});
    uses_.back().is_at_event = true;
  }
  void set_use(const CardLogUse& use);
  // The number of the first change at `time` or later; the number of all changes if there is none.
  [[nodiscard]] std::uint32_t change_from(std::uint64_t time) const;
  void thin_changes();
  // The indexes of the events that thin_changes() keeps.
  [[nodiscard]] std::vector<std::size_t> decisive_events();
  // Adds to `kept` the decisive changes of one interval, events_[begin] to events_[end - 1].
  void keep_decisive(std::size_t begin, std::size_t end, std::vector<std::size_t>& kept);
  void keep(const std::vector<std::size_t>& kept);
  void thin_uses();
  void sum_holders();

  std::vector<CardLogEvent> events_;
  std::vector<CardLogChange> changes_;
  std::vector<trace::MemorySample> samples_;
  std::vector<trace::ProcessSample> listed_processes_;
  std::vector<std::uint64_t> counted_late_;
  std::vector<CardLogPeak> restored_peaks_;
  std::vector<CardLogUse> uses_{1};
  std::vector<GroupBytesChange> holders_;
  std::size_t most_changes_;  // most changes before they are thinned
  std::size_t most_uses_;
  std::size_t most_holders_ = 2 * kMostChanges;  // most holder rows before they are summed
  // k of the intervals of 2^k ticks by which changes are thinned
  unsigned change_bits_ = 0;
  unsigned use_bits_ = 0;
  bool uses_are_left_out_ = false;
};

}  // namespace gpumemtrace::analyzer
