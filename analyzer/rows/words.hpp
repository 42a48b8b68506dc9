// SPDX-License-Identifier: Apache-2.0
// Closed words that only the report has, and how many words those of the model are: a reader of a
// report looks for a word among all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/base/words.hpp"
#include "analyzer/findings/rule_table.hpp"
#include "analyzer/model/program/categories.hpp"
#include "trace/ledger/address_map.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/levels.hpp"

namespace gpumemtrace::analyzer {

using ledger::EndedBy;
using ledger::Kind;
using ledger::Level;
using ledger::MemoryClass;

constexpr std::size_t word_count(Level) { return 7; }
constexpr std::size_t word_count(Kind) { return ledger::kKindNames.size(); }
constexpr std::size_t word_count(Category) { return kCategories; }
constexpr std::size_t word_count(Confidence) { return 4; }
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

// In which language a line of code or a frame is written.
enum class Language : std::uint8_t { kNative, kPython };
constexpr std::string_view name_of(Language language) {
  return language == Language::kPython ? "python" : "native";
}
constexpr std::size_t word_count(Language) { return 2; }

// How a trace ended.
enum class TraceEnd : std::uint8_t { kExit, kExec, kSignal, kKilled, kRunning, kUnknown };
constexpr std::string_view name_of(TraceEnd end) {
  constexpr std::array<std::string_view, 6> kNames = {"exit",   "exec",    "signal",
                                                      "killed", "running", "unknown"};
  return kNames[static_cast<std::size_t>(end)];
}
constexpr std::size_t word_count(TraceEnd) { return 6; }

// Whether it is known what was left at the exit of every process.
enum class LeakState : std::uint8_t { kChecked, kNotApplicable };
constexpr std::string_view name_of(LeakState state) {
  return state == LeakState::kChecked ? "checked" : "not_applicable";
}
constexpr std::size_t word_count(LeakState) { return 2; }

// What it means that memory was live when its process ended.
enum class LeakClass : std::uint8_t {
  kLost,
  kProcessLifetime,
  kFrameworkCache,
  kContextDestroyed,
  kLiveAtKill,
};
constexpr std::string_view name_of(LeakClass leak) {
  constexpr std::array<std::string_view, 5> kNames = {"lost", "process_lifetime", "framework_cache",
                                                      "context_destroyed", "live_at_kill"};
  return kNames[static_cast<std::size_t>(leak)];
}
constexpr std::size_t word_count(LeakClass) { return 5; }

// At which point of the run something was looked at.
enum class SnapshotAt : std::uint8_t { kPeak, kDriverPeak, kOom, kWorst, kEnd };
constexpr std::string_view name_of(SnapshotAt at) {
  constexpr std::array<std::string_view, 5> kNames = {"peak", "driver_peak", "oom", "worst", "end"};
  return kNames[static_cast<std::size_t>(at)];
}
constexpr std::size_t word_count(SnapshotAt) { return 5; }

// At which moment single blocks were live.
enum class BlocksAt : std::uint8_t { kPeak, kTime };
constexpr std::string_view name_of(BlocksAt at) { return at == BlocksAt::kPeak ? "peak" : "time"; }
constexpr std::size_t word_count(BlocksAt) { return 2; }

// What the parts of a timeline are named by.
enum class PartsBy : std::uint8_t { kCategory, kOwner };
constexpr std::string_view name_of(PartsBy parts) {
  return parts == PartsBy::kCategory ? "category" : "owner";
}
constexpr std::size_t word_count(PartsBy) { return 2; }

// Why a request found no memory.
enum class OomVerdict : std::uint8_t { kUnknown, kFragmented, kExhausted };
constexpr std::string_view name_of(OomVerdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"unknown", "fragmented", "exhausted"};
  return kNames[static_cast<std::size_t>(verdict)];
}
constexpr std::size_t word_count(OomVerdict) { return 3; }

}  // namespace gpumemtrace::analyzer::rows
