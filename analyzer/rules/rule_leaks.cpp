// SPDX-License-Identifier: Apache-2.0
// Rules on memory that was never freed, and on frees that were refused.
#include <array>
#include <optional>
#include <string>

#include "analyzer/owners/owners.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The functions that free one kind of memory: that of the CUDA runtime, and that of the driver API.
struct FreeFunction {
  std::string_view kind;
  std::string_view runtime;
  std::string_view driver;
};
constexpr std::array kFreeFunctions = {
    FreeFunction{name_of(Kind::kDevice), "cudaFree", "cuMemFree"},
    FreeFunction{name_of(Kind::kPitched), "cudaFree", "cuMemFree"},
    FreeFunction{name_of(Kind::kArray), "cudaFreeArray", "cuArrayDestroy"},
    FreeFunction{name_of(Kind::kVmm), "cuMemRelease", "cuMemRelease"},
    FreeFunction{name_of(Kind::kVmmHost), "cuMemRelease", "cuMemRelease"},
    FreeFunction{name_of(Kind::kGraph), "cudaFreeAsync", "cuMemFreeAsync"},
    FreeFunction{name_of(Kind::kStreamOrdered), "cudaFreeAsync", "cuMemFreeAsync"},
    FreeFunction{name_of(Kind::kManaged), "cudaFree", "cuMemFree"},
    FreeFunction{name_of(Kind::kPinned), "cudaFreeHost", "cuMemFreeHost"},
    FreeFunction{name_of(Kind::kRegistered), "cudaHostUnregister", "cuMemHostUnregister"},
};

// The functions that close handles. Physical memory that the program created is not in this list:
// it is reported as a leak already, with its bytes.
constexpr std::array kHandleFunctions = {
    FreeFunction{name_of(HandleKind::kImportedVmm), "cuMemRelease", "cuMemRelease"},
    FreeFunction{name_of(HandleKind::kIpc), "cudaIpcCloseMemHandle", "cuIpcCloseMemHandle"},
    FreeFunction{name_of(HandleKind::kExternal), "cudaDestroyExternalMemory",
                 "cuDestroyExternalMemory"},
    FreeFunction{name_of(HandleKind::kPool), "cudaMemPoolDestroy", "cuMemPoolDestroy"},
    FreeFunction{name_of(HandleKind::kGraphExecutable), "cudaGraphExecDestroy",
                 "cuGraphExecDestroy"},
};

// The free function of the driver API if the site allocated by the driver API, else the runtime's.
std::string name_of(const FreeFunction& function, const std::optional<rows::Site>& site) {
  const bool driver = site && site->api && !site->api->starts_with("cuda");
  return std::string(driver ? function.driver : function.runtime);
}

std::string free_function(const rows::ExitLeak& row) {
  for (const FreeFunction& function : kFreeFunctions) {
    if (name_of(row.kind) == function.kind) return name_of(function, row.origin.site);
  }
  return "its free function";
}

// A row's numbers on the allocations (or handles) of its site, and the words for them.
struct SiteOutcome {
  const rows::Origin& origin;
  std::uint64_t count = 0;  // number of allocations that the row is about
  rows::OptionalNumber first_time_ns;
  rows::OptionalNumber made_count;
  rows::OptionalNumber last_made_ns;
  const rows::Releases& freed_or_closed;
  std::string_view back_word;
  std::string function;  // the function that frees one allocation
};

SiteOutcome outcome_of(const rows::ExitLeak& row) {
  return {row.origin, row.count, row.first_time_ns, row.allocations, row.last_allocation_ns,
          row.freed,  "freed",   free_function(row)};
}

SiteOutcome outcome_of(const rows::OpenHandles& row, const FreeFunction& function) {
  return {row.origin,         row.count,  row.first_time_ns, row.opened_count,
          row.last_opened_ns, row.closed, "released",        name_of(function, row.origin.site)};
}

// The text for the allocations that were not freed: "the last one, made at 2.6 ms,", "1,440".
std::string remaining_text(const SiteOutcome& outcome, const std::string& made) {
  const bool is_last = outcome.last_made_ns && outcome.first_time_ns == outcome.last_made_ns;
  const std::string one = is_last ? "the last one" : "one";
  return (outcome.count == 1 ? one : format_count(outcome.count)) +
         (made.empty() ? made : ", " + made + ',');
}

// Sets the names that sentences on the allocations of the row's site use.
void set_outcome(const SiteOutcome& outcome, Sentence& sentence) {
  const bool has_more = outcome.made_count && *outcome.made_count > outcome.count;
  const bool is_one = outcome.first_time_ns && outcome.count == 1;
  const std::string made = is_one ? sentence(sentences::kMade) : std::string();
  const std::string at = location_text(outcome.freed_or_closed.first_at, outcome.origin.site);
  sentence.set("more_allocations", has_more ? outcome.made_count : std::nullopt)
      .set("made_count", outcome.made_count)
      .set("made", made)
      .set("rest", remaining_text(outcome, made))
      .set("back_count", outcome.freed_or_closed.count)
      .set("back_word", outcome.back_word)
      .set("at", at_text(at, outcome.freed_or_closed.elsewhere.value_or(false)))
      .set("function", outcome.function);
}

// True if other allocations of the same site were freed; false if the row sums several sites.
bool has_freed_others(const SiteOutcome& outcome) {
  return outcome.freed_or_closed.count.value_or(0) != 0 && outcome.made_count &&
         outcome.origin.site;
}

// Advice for what is left if other allocations of the same site were freed; empty if none was.
std::string fix_by_others(const SiteOutcome& outcome, const Sentence& sentence) {
  if (!has_freed_others(outcome)) return {};
  return sentence(sentences::kOthersWereFreed) + sentence(sentences::kFindPath);
}

// Advice on a leak. `sentence` has the name `teardown` if the end of a context took the memory:
// then a free must come before that.
std::string fix_for_exit(const rows::ExitLeak& row, bool was_torn_down, const Sentence& sentence) {
  const SiteOutcome outcome = outcome_of(row);
  // A program that calls the driver itself has no object whose end would free the memory.
  const bool by_object = row.origin.site && row.origin.owner != "program" &&
                         row.origin.site->language == rows::Language::kPython;
  const std::string_view advice = by_object ? sentences::kFreeByObject : sentences::kFreeByCall;
  if (was_torn_down) return sentence(advice);
  if (!by_object && has_freed_others(outcome)) return fix_by_others(outcome, sentence);
  std::string fix;
  if (has_freed_others(outcome)) fix = sentence(sentences::kOthersWereFreed);
  if (outcome.freed_or_closed.count == 0u) {
    fix += sentence(row.count == 1 ? sentences::kNothingFreedIt : sentences::kNothingFreedAny);
  }
  return fix + sentence(advice);
}

std::string_view teardown_of(EndedBy ended_by) {
  if (ended_by == EndedBy::kPrimaryReset) return sentences::kReset;
  return ended_by == EndedBy::kPrimaryReleased ? sentences::kReleased : sentences::kEnded;
}

rows::Finding exit_finding(Rule rule, const rows::ExitLeak& row) {
  rows::Finding finding = finding_at(rule, row);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kExact};
  finding.time_ns = row.first_time_ns;
  add_evidence(row,
               {"count", "kind", "class", "first_time_ns", "last_time_ns", "allocations",
                "freed_count", "freed_at", "first_step"},
               finding.evidence);
  Sentence sentence = sentence_on(finding).with(row);
  set_outcome(outcome_of(row), sentence);
  const bool was_torn_down = rule == Rule::kLeakUntilContextEnd;
  if (was_torn_down) add_evidence(row, {"ended_by", "ended_at"}, finding.evidence);
  sentence.set("teardown", was_torn_down ? sentence(teardown_of(row.ended_by)) : std::string());
  sentence.set("advice", fix_for_exit(row, was_torn_down, sentence));
  fill_texts(was_torn_down ? sentences::kLeakUntilContextEnd : sentences::kLeak, sentence, finding);
  if (!row.is_exact) finding.confidence = FindingConfidence::kInferred;
  return finding;
}

// Lowers the severity of leaks without a known owner in Python programs, which load many libraries:
// the allocating code may keep a buffer as long as the process lives, and for a small buffer most
// likely does.
void lower_for_unknown_owner(const rows::Report& report, rows::Finding& finding) {
  if (finding.origin.owner) return;
  for (const rows::Process& process : report.processes) {
    if (process.id != finding.process || !process.python) continue;
    const bool is_little = finding.bytes.value_or(0) < kLeastLeakOfNote;
    finding.severity = is_little ? Severity::kInfo : Severity::kWarning;
    finding.confidence = FindingConfidence::kInferred;
    finding.detail += sentences::kOwnerUnknown;
  }
}

bool ended_by_exit(const rows::Report& report, const std::string& process) {
  for (const rows::Trace& trace : report.traces) {
    if (trace.process == process) return trace.end == rows::TraceEnd::kExit;
  }
  return false;
}

rows::Finding handle_finding(const rows::OpenHandles& row, const FreeFunction& function) {
  rows::Finding finding = finding_at(Rule::kUnreleasedHandle, row);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kExact};
  finding.time_ns = row.first_time_ns;
  add_evidence(row, {"kind", "count", "opened_count", "closed_count", "closed_at"},
               finding.evidence);
  const SiteOutcome outcome = outcome_of(row, function);
  Sentence sentence = sentence_on(finding).with(row);
  sentence.set("handle_kind", function.kind).set("first_step", rows::OptionalNumber());
  set_outcome(outcome, sentence);
  const std::string by_others = fix_by_others(outcome, sentence);
  sentence.set("advice", by_others.empty() ? sentence(sentences::kReleaseAlways) : by_others);
  fill_texts(sentences::kUnreleasedHandle, sentence, finding);
  return finding;
}

void find_handles(const rows::Report& report, Findings& findings) {
  for (const rows::OpenHandles& row : report.leaks.handles) {
    if (!is_users_own(row.origin.owner.value_or("")) || !ended_by_exit(report, row.process)) {
      continue;
    }
    for (const FreeFunction& function : kHandleFunctions) {
      if (name_of(row.kind) == function.kind) findings.push_back(handle_finding(row, function));
    }
  }
}

// CUDA_ERROR_NOT_PERMITTED, which the driver returns to calls from within a stream's callback.
constexpr std::uint64_t kNotPermitted = 800;

std::string answer_text(const rows::InvalidFree& row) {
  if (row.result == kNotPermitted) return std::string(sentences::kNotPermitted);
  if (row.result == 1) return std::string(sentences::kInvalidValue);
  return Sentence().set("result", row.result)(sentences::kOtherError);
}

// Adds to a leak's finding the attempts to free that memory which the driver refused.
void add_refused_frees(const rows::Leaks& leaks, const rows::ExitLeak& leak,
                       rows::Finding& finding) {
  std::uint64_t tried = 0;
  for (const rows::InvalidFree& row : leaks.invalid_frees) {
    const bool is_of_leak = row.what == FreedWhat::kLiveMemory && row.process == leak.process &&
                            row.allocated_at && leak.origin.site &&
                            row.allocated_at->site == leak.origin.site;
    if (!is_of_leak) continue;
    finding.detail += Sentence(row.origin.site)
                          .set("tries", row.count)
                          .set("answer", answer_text(row))(sentences::kRefusedFree);
    if (row.result == kNotPermitted) {
      finding.fix.insert(0, sentences::kFreeOutsideCallback);
    }
    tried += row.count;
  }
  if (tried != 0) finding.evidence.add("refused_frees", tried);
}

// The text of a finding on a refused free, by the memory that lay at the address.
const FindingText& text_of(const rows::InvalidFree& row) {
  switch (row.what) {
    case FreedWhat::kLiveMemory:
      return row.result == kNotPermitted ? sentences::kFreeInCallback : sentences::kFreeOfOtherKind;
    case FreedWhat::kFreedBefore:
      return sentences::kFreedTwice;
    case FreedWhat::kEndedBefore:
      return sentences::kFreedAfterContext;
    case FreedWhat::kInsideLive:
      return sentences::kFreedInside;
    case FreedWhat::kNothingKnown:
      break;
  }
  return sentences::kFreedNothing;
}

rows::Finding invalid_free(const rows::InvalidFree& row) {
  rows::Finding finding = finding_of_rule(Rule::kInvalidFree);
  finding.process = row.process;
  finding.origin = row.origin;
  finding.time_ns = row.first_time_ns;
  if (row.what == FreedWhat::kLiveMemory) finding.bytes = row.bytes;
  add_evidence(row,
               {"function", "result", "address_was_live", "count", "what", "allocated_at",
                "freed_before_at"},
               finding.evidence);
  const std::string allocated = location_text(row.allocated_at, row.origin.site);
  Sentence sentence = sentence_on(finding).with(row);
  sentence.set("answer", answer_text(row))
      .set("memory", allocated.empty() ? "the memory" : sentence(sentences::kTheMemory))
      .set("allocation", allocated.empty() ? "the allocation" : allocated);
  fill_texts(text_of(row), sentence, finding);
  finding.detail.insert(0, sentence(sentences::kFreeRefused));
  return finding;
}

}  // namespace

void find_leaks(const RuleInput& input, Findings& findings) {
  const rows::Leaks& leaks = input.report.leaks;
  const std::uint64_t least_bytes = input.thresholds.bytes(Threshold::kLeakBytes);
  for (const rows::ExitLeak& row : leaks.exit) {
    if (row.bytes < least_bytes) continue;
    if (row.leak_class == rows::LeakClass::kLost && row.level != Level::kFramework) {
      findings.push_back(exit_finding(Rule::kLeak, row));
      lower_for_unknown_owner(input.report, findings.back());
      add_refused_frees(leaks, row, findings.back());
    } else if (row.leak_class == rows::LeakClass::kContextDestroyed &&
               is_users_own(row.origin.owner.value_or(""))) {
      findings.push_back(exit_finding(Rule::kLeakUntilContextEnd, row));
    }
  }
  find_handles(input.report, findings);
  for (const rows::InvalidFree& row : leaks.invalid_frees) findings.push_back(invalid_free(row));
}

}  // namespace gpumemtrace::analyzer
