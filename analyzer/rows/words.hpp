// SPDX-License-Identifier: Apache-2.0
// Enumerations whose names only the report has, and word_count() of the model's enumerations: a
// reader of a report looks a word up among all names of its enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/base/words.hpp"
#include "analyzer/findings/rule_table.hpp"
#include "analyzer/model/program/categories.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/copy_locations.hpp"
#include "trace/ledger/levels.hpp"

namespace gpumemtrace::analyzer {

using ledger::EndedBy;
using ledger::Kind;
using ledger::Level;
using ledger::MemoryClass;

constexpr std::size_t word_count(Level) { return 7; }
constexpr std::size_t word_count(Kind) { return ledger::kKindNames.size(); }
constexpr std::size_t word_count(Severity) { return 3; }
constexpr std::size_t word_count(FindingConfidence) { return 3; }
constexpr std::size_t word_count(Rule) { return kRules.size(); }

constexpr std::string_view name_of(Rule rule) { return describe(rule).name; }

constexpr std::size_t word_count(MemoryClass) { return 6; }
constexpr std::size_t word_count(EndedBy) { return 4; }

}  // namespace gpumemtrace::analyzer

namespace gpumemtrace::analyzer::rows {

using analyzer::name_of;
using analyzer::word_count;

// The language of a line of code or of a frame.
enum class Language : std::uint8_t { kNative, kPython };
constexpr auto names(Language) { return std::to_array<std::string_view>({"native", "python"}); }

// The end of a trace.
enum class TraceEnd : std::uint8_t { kExit, kExec, kSignal, kKilled, kRunning, kUnknown };
constexpr auto names(TraceEnd) {
  return std::to_array<std::string_view>(
      {"exit", "exec", "signal", "killed", "running", "unknown"});
}

// Tells if it is known which memory was left at the exit of every process.
enum class LeakState : std::uint8_t { kChecked, kNotApplicable };
constexpr auto names(LeakState) {
  return std::to_array<std::string_view>({"checked", "not_applicable"});
}

// The meaning of memory that was live when its process ended.
enum class LeakClass : std::uint8_t {
  kLost,
  kProcessLifetime,
  kFrameworkCache,
  kContextDestroyed,
  kLiveAtKill,
};
constexpr auto names(LeakClass) {
  return std::to_array<std::string_view>(
      {"lost", "process_lifetime", "framework_cache", "context_destroyed", "live_at_kill"});
}

// The point of the run at which a snapshot was taken.
enum class SnapshotAt : std::uint8_t { kPeak, kDriverPeak, kOom, kWorst, kEnd };
constexpr auto names(SnapshotAt) {
  return std::to_array<std::string_view>({"peak", "driver_peak", "oom", "worst", "end"});
}

// The moment that a row of blocks[] is about: the peak, or a time that the user gave.
enum class BlocksAt : std::uint8_t { kPeak, kTime };
constexpr auto names(BlocksAt) { return std::to_array<std::string_view>({"peak", "time"}); }

// The kind of parts by which a timeline divides its bytes.
enum class PartsBy : std::uint8_t { kCategory, kOwner };
constexpr auto names(PartsBy) { return std::to_array<std::string_view>({"category", "owner"}); }

// The reason why a request found no memory.
enum class OomVerdict : std::uint8_t { kUnknown, kFragmented, kExhausted };
constexpr auto names(OomVerdict) {
  return std::to_array<std::string_view>({"unknown", "fragmented", "exhausted"});
}

}  // namespace gpumemtrace::analyzer::rows
