// SPDX-License-Identifier: Apache-2.0
// All that one process did to one card, over time. The curves of the card are made from it and from
// the histories of the other processes there (analyzer/cards/).
#pragma once

#include "analyzer/model/accounts/card_log.hpp"
#include "analyzer/rows/site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::trace {

constexpr std::string_view name_of(SampleSource source) {
  switch (source) {
    case SampleSource::kNvmlProcess:
      return "nvml_process";
    case SampleSource::kMemGetInfo:
      return "cumemgetinfo";
    case SampleSource::kNvmlDevice:
      return "nvml_device";
    case SampleSource::kNone:
      break;
  }
  return "none";
}
constexpr std::size_t word_count(SampleSource) { return 4; }

constexpr std::string_view name_of(ProcessRelation relation) {
  switch (relation) {
    case ProcessRelation::kThis:
      return "this";
    case ProcessRelation::kDescendant:
      return "descendant";
    case ProcessRelation::kOther:
      break;
  }
  return "other";
}
constexpr std::size_t word_count(ProcessRelation) { return 3; }

// CurveOf begins at 1; the word for 0 is empty.
constexpr std::string_view name_of(CurveOf curve) {
  switch (curve) {
    case CurveOf::kCard:
      return "card";
    case CurveOf::kJob:
      return "job";
  }
  return {};
}
constexpr std::size_t word_count(CurveOf) { return 3; }

}  // namespace gpumemtrace::trace

namespace gpumemtrace::analyzer::rows {

using analyzer::CardEventKind;

// One event of the history; events are in the order of time. The numbers of the n-th event of a
// kind are in row n of CardHistory's list of that kind, if the kind has one.
struct CardEvent {
  JobTime time_ns;
  CardEventKind what = CardEventKind::kChange;

  GPUMEMTRACE_FIELDS(time_ns, what)
};

// The memory that the process's calls hold from the time of this change to that of the next.
struct CardChange {
  std::uint64_t allocated_bytes = 0;  // by calls to the driver, outside of pools
  std::uint64_t pool_reserved = 0;
  std::uint64_t rounding_bytes = 0;
  // Up to the next change the bytes may be more or less by this number: changes were left out.
  std::uint64_t unknown_bytes = 0;

  GPUMEMTRACE_FIELDS(allocated_bytes, pool_reserved, rounding_bytes, unknown_bytes)
};

// The driver's answer to one question about memory. The inherited `device` is not used.
struct CardSample : trace::MemorySample {
  GPUMEMTRACE_FIELDS(source, free_bytes, total_bytes, process_bytes, other_bytes, reserved_bytes)
};

// A row of NVML's list of processes. The inherited `device` is not used.
struct ListedProcess : trace::ProcessSample {
  GPUMEMTRACE_FIELDS(bytes, process_id, processes, relation)
};

// The bytes of the framework's blocks and of memory in use in pools, from `time_ns` to the time of
// the next row.
struct CardUse {
  JobTime time_ns;
  std::uint64_t framework_allocated = 0;
  std::uint64_t pool_used = 0;

  GPUMEMTRACE_FIELDS(time_ns, framework_allocated, pool_used)
};

// The owner of memory that calls to the driver allocated.
struct CardOwner {
  bool is_framework = false;  // true for segments of the framework's allocator
  OptionalName<Secret::kOwner> owner;

  friend auto operator<=>(const CardOwner&, const CardOwner&) = default;

  GPUMEMTRACE_FIELDS(is_framework, owner)
};

// From row `change` of changes[] on, the owner (a row of owners[]) holds `bytes` more.
struct CardOwnersChange {
  std::uint64_t change = 0;
  std::uint64_t owner = 0;
  std::int64_t bytes = 0;

  GPUMEMTRACE_FIELDS(change, owner, bytes)
};
struct CardOwnersBytes {
  std::uint64_t owner = 0;
  std::uint64_t bytes = 0;

  GPUMEMTRACE_FIELDS(owner, bytes)
};

// A point of a memory curve in the time that a checkpoint replaced. The inherited `point_time` is
// not used.
struct CardPrefixPoint : trace::CardPoint {
  OptionalTime time_ns;
  std::vector<CardOwnersBytes> owners;

  GPUMEMTRACE_FIELDS(time_ns, called_bytes, framework_allocated, pool_used, pool_reserved,
                     allocated, rounding_bytes, driver_bytes, other_bytes, untraced_bytes,
                     managed_bytes, of, is_best, at_sample, owners)
};
struct CardPrefixCurve : trace::CardCurve {
  GPUMEMTRACE_FIELDS(of, high_bytes, low_bytes, low_beyond_bytes, high_beyond_bytes, was_sampled,
                     best_is_exact, best_is_last_sample)
};
// The memory curves of the card in the time that a checkpoint replaced, as this process alone knew
// them.
struct CardPrefix : trace::CardState {
  std::vector<CardPrefixCurve> curves;
  std::vector<CardPrefixPoint> points;

  GPUMEMTRACE_FIELDS(called_bytes, driver_bytes, other_bytes, untraced_bytes, round_other_bytes,
                     round_untraced_bytes, round_unowned_bytes, unowned_bytes, managed_bytes,
                     round_processes, processes, process_id, is_told, asked_for_free, round_is_open,
                     round_has_list, best_is_to_divide, round_tells_unowned, has_managed,
                     managed_is_known, curves, points)
};

// The driver's bytes at one sample, and the bytes that the process's calls held at that time.
struct CardSummarySample {
  std::uint64_t in_use = 0;
  std::uint64_t process_bytes = 0;
  std::uint64_t other_bytes = 0;
  std::uint64_t called_bytes = 0;

  GPUMEMTRACE_FIELDS(in_use, process_bytes, other_bytes, called_bytes)
};
// The peak and samples of the time that a checkpoint without curves replaced.
struct CardSummary {
  CardPrefixPoint highest;  // the point at which the process's calls held most
  std::uint64_t total_bytes = 0;
  std::uint64_t most_in_use = 0;
  std::uint64_t most_of_process = 0;
  CardSummarySample nearest;  // the sample that is nearest to `highest`
  CardSummarySample last;

  GPUMEMTRACE_FIELDS(highest, total_bytes, most_in_use, most_of_process, nearest, last)
};

// The most bytes that the process's calls held in the time that a checkpoint replaced.
struct RestoredCardPeak {
  std::uint64_t bytes = 0;
  JobTime time_ns;

  GPUMEMTRACE_FIELDS(bytes, time_ns)
};

struct CardHistory {
  ProcessId process;
  OptionalDevice device;
  std::uint32_t process_id = 0;   // PID in the namespace that NVML uses; 0 = not known
  std::uint64_t total_bytes = 0;  // size of the card; 0 = not known
  bool has_source = false;        // true if a file of another tool is the trace
  bool is_inexact = false;        // true if events of memory are missing
  bool allocates_managed = false;
  bool uses_are_left_out = false;  // true if uses[] lacks some rows
  bool has_ended = false;          // true if the process has ended
  OptionalTime last_ns;            // time of the trace's last event of any kind
  std::vector<CardEvent> events;
  std::vector<CardChange> changes;
  std::vector<CardSample> samples;
  std::vector<ListedProcess> listed_processes;
  // Bytes of pools that the driver's last sample had counted, but that became known only after it,
  // modulo 2^64.
  std::vector<std::uint64_t> counted_late;
  std::vector<CardUse> uses;
  std::vector<CardOwner> owners;
  std::vector<CardOwnersChange> owners_changes;  // sorted by `change`
  std::optional<CardPrefix> prefix;
  std::optional<CardSummary> summary;
  std::vector<RestoredCardPeak> restored_peaks;

  GPUMEMTRACE_FIELDS(process, device, process_id, total_bytes, has_source, is_inexact,
                     allocates_managed, uses_are_left_out, has_ended, last_ns, events, changes,
                     samples, listed_processes, counted_late, uses, owners, owners_changes, prefix,
                     summary, restored_peaks)
};

}  // namespace gpumemtrace::analyzer::rows
