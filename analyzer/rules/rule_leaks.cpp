// SPDX-License-Identifier: Apache-2.0
// Memory that was never freed, and frees that were refused.
#include <array>
#include <optional>
#include <string>

#include "analyzer/owners/owners.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The functions that free memory of a kind, in the words of the CUDA runtime and of the driver.
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

// Physical memory of the program's own is a leak already, with its bytes.
constexpr std::array kHandleFunctions = {
    FreeFunction{name_of(HandleKind::kImportedVmm), "cuMemRelease", "cuMemRelease"},
    FreeFunction{name_of(HandleKind::kIpc), "cudaIpcCloseMemHandle", "cuIpcCloseMemHandle"},
    FreeFunction{name_of(HandleKind::kExternal), "cudaDestroyExternalMemory",
                 "cuDestroyExternalMemory"},
    FreeFunction{name_of(HandleKind::kPool), "cudaMemPoolDestroy", "cuMemPoolDestroy"},
    FreeFunction{name_of(HandleKind::kGraphExecutable), "cudaGraphExecDestroy",
                 "cuGraphExecDestroy"},
};

// The free function whose counterpart the site called.
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

// A row's numbers on the allocations of its site, and the words for them.
struct SiteOutcome {
  const rows::Origin& origin;
  std::uint64_t count = 0;  // that the row is about
  rows::OptionalNumber first_time_ns;
  rows::OptionalNumber first_step;
  rows::OptionalNumber made_count;
  rows::OptionalNumber last_made_ns;
  const rows::Releases& back;
  std::string_view made_word;
  std::string_view back_word;
};

SiteOutcome outcome_of(const rows::ExitLeak& row) {
  return {row.origin,     row.count,       row.first_time_ns,
          row.first_step, row.allocations, row.last_allocation_ns,
          row.freed,      "allocated",     "freed"};
}

SiteOutcome outcome_of(const rows::OpenHandles& row) {
  return {row.origin,         row.count,  row.first_time_ns, std::nullopt, row.opened_count,
          row.last_opened_ns, row.closed, "opened",          "released"};
}

// ", 1 of 3 allocations there": how many allocations of a site were not freed, if some were.
std::string share_text(const SiteOutcome& outcome, std::string_view what) {
  if (!outcome.made_count || *outcome.made_count <= outcome.count) return {};
  return ", " + std::to_string(outcome.count) + " of " + std::to_string(*outcome.made_count) + ' ' +
         std::string(what);
}

// "its context's end at main.cpp:12 (main)".
std::string teardown_text(const rows::ExitLeak& row) {
  const std::string text = row.ended_by == EndedBy::kPrimaryReset ? "the reset of the device"
                           : row.ended_by == EndedBy::kPrimaryReleased
                               ? "the release of its context"
                               : "the end of its context";
  const std::string place = location_text(row.ended_at, row.origin.site);
  return place.empty() ? text : text + " at " + place;
}

// "made at 2.6 ms in step 3"; empty for several, and if that is not known.
std::string allocated_at_text(const SiteOutcome& outcome) {
  if (!outcome.first_time_ns || outcome.count != 1) return {};
  return "made at " + duration_text(*outcome.first_time_ns) +
         (outcome.first_step ? " in step " + std::to_string(*outcome.first_step) : std::string());
}

// "the last one, made at 2.6 ms,": the allocations of the site that the row is about.
std::string remaining_text(const SiteOutcome& outcome) {
  const bool is_last = outcome.last_made_ns && outcome.first_time_ns == outcome.last_made_ns;
  const std::string made = allocated_at_text(outcome);
  return (outcome.count != 1 ? std::to_string(outcome.count)
          : is_last          ? "the last one"
                             : "one") +
         (made.empty() ? made : ", " + made + ',');
}

// "Of the 3 that main.cpp:3 (load) allocated 2 were freed, at main.cpp:9 (main); the last one, made
// at 2.6 ms, was not.": empty if none was, or if that is not known.
std::string outcome_text(const SiteOutcome& outcome) {
  const std::uint64_t back = outcome.back.count.value_or(0);
  if (back == 0 || !outcome.made_count) return {};
  if (!outcome.origin.site) return {};  // perhaps several sites
  const std::string at = location_text(outcome.back.first_at, outcome.origin.site);
  const bool elsewhere = outcome.back.elsewhere.value_or(false);
  return "Of the " + std::to_string(*outcome.made_count) + " that " +
         site_text(outcome.origin.site) + ' ' + std::string(outcome.made_word) + ' ' +
         count_of(back, "was ", "were ") + std::string(outcome.back_word) +
         (at.empty() ? at : (elsewhere ? ", some at " : ", at ") + at) + "; " +
         remaining_text(outcome) + (outcome.count == 1 ? " was not. " : " were not. ");
}

// Advice for the rest if others of the same site were freed: empty if none was.
std::string fix_by_others(const SiteOutcome& outcome, const std::string& function) {
  const std::string text = outcome_text(outcome);
  if (text.empty()) return text;
  const bool knows_where = !location_text(outcome.back.first_at, outcome.origin.site).empty();
  const std::string which = outcome.count == 1 ? "it" : "them";
  return text + "Call " + function + " for " + which + ", too: find what keeps " + which +
         " from " +
         (knows_where ? "that call." : "being " + std::string(outcome.back_word) + " likewise.");
}

// "Nothing freed any of the 3. ": if no call gave back one of them.
std::string nothing_freed_text(const SiteOutcome& outcome) {
  if (outcome.back.count != 0) return {};
  const bool is_one = outcome.count == 1;
  const std::string which = is_one ? "it" : "any of the " + std::to_string(outcome.count);
  const std::string made = allocated_at_text(outcome);
  return "Nothing freed " + which + (made.empty() ? made : "; it was " + made) + ". ";
}

std::string allocations_text(const rows::ExitLeak& row) {
  return count_of(row.count, "allocation", "allocations") + " of " +
         std::string(name_of(row.kind)) + " memory";
}

// `before`: the time after which it is too late, if the end of a context took the memory.
std::string fix_for_exit(const rows::ExitLeak& row, const std::string& before) {
  const std::string free = free_function(row);
  const std::string what = "what " + site_text(row.origin.site) + " allocates";
  // A program that calls the driver itself has no object that would free it.
  const bool by_object = row.origin.site && row.origin.owner != "program" &&
                         row.origin.site->language == rows::Language::kPython;
  std::string fix;
  if (before.empty()) {
    if (!by_object) fix = fix_by_others(outcome_of(row), free);
    if (!fix.empty()) return fix;
    fix = outcome_text(outcome_of(row)) + nothing_freed_text(outcome_of(row));
  }
  return fix + (by_object ? "Free " + what + " (" + free + ')' + before +
                                ", or let go of the object that holds it."
                          : "Call " + free + " for " + what + before + '.');
}

void add_evidence(const rows::ExitLeak& row, rows::Evidence& evidence) {
  evidence.add("count", row.count);
  evidence.add("kind", row.kind);
  evidence.add("class", row.leak_class);
  evidence.add("first_time_ns", row.first_time_ns);
  evidence.add("last_time_ns", row.last_time_ns);
  evidence.add("allocations", row.allocations);
  evidence.add("freed_count", row.freed.count);
  evidence.add("freed_at", row.freed.first_at);
  evidence.add("first_step", row.first_step);
}

rows::Finding exit_finding(Rule rule, const rows::ExitLeak& row) {
  rows::Finding finding = finding_at(rule, row);
  const std::string bytes = size_text(row.bytes);
  const std::string place = site_text(row.origin.site);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kExact};
  finding.time_ns = row.first_time_ns;
  add_evidence(row, finding.evidence);
  std::string before;
  if (rule == Rule::kLeak) {
    finding.title =
        bytes + " leaked at " + place + share_text(outcome_of(row), "allocations there");
    finding.detail = allocations_text(row) + " from " + place + ", " + bytes +
                     ", had not been freed when the process ended.";
  } else {
    const std::string teardown = teardown_text(row);
    finding.title = bytes + " of " + place + " was never freed: " + teardown + " took it";
    finding.detail = allocations_text(row) + " from " + place + ", " + bytes +
                     ", ended with its context and not by a free.";
    finding.evidence.add("ended_by", row.ended_by);
    finding.evidence.add("ended_at", row.ended_at);
    before = " before " + teardown;
  }
  finding.fix = fix_for_exit(row, before) + " It would give back " + bytes + " (exact).";
  if (!row.is_exact) finding.confidence = FindingConfidence::kInferred;
  return finding;
}

// Python programs load many libraries. If the allocating code is not known, it may be one that
// keeps a buffer as long as the process lives; a small one most likely is.
void lower_for_unknown_owner(const rows::Report& report, rows::Finding& finding) {
  if (finding.origin.owner) return;
  for (const rows::Process& process : report.processes) {
    if (process.id != finding.process || !process.python) continue;
    const bool is_little = finding.bytes.value_or(0) < kLeastLeakOfNote;
    finding.severity = is_little ? Severity::kInfo : Severity::kWarning;
    finding.confidence = FindingConfidence::kInferred;
    finding.detail += " Who allocated it is not known; it may be a library's own buffer.";
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
  const std::string place = site_text(row.origin.site);
  const std::string handles =
      count_of(row.count, "handle", "handles") + " (" + std::string(function.kind) + ')';
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kExact};
  finding.time_ns = row.first_time_ns;
  finding.evidence.add("kind", row.kind);
  finding.evidence.add("count", row.count);
  finding.evidence.add("opened_count", row.opened_count);
  finding.evidence.add("closed_count", row.closed.count);
  finding.evidence.add("closed_at", row.closed.first_at);
  finding.title =
      handles + " of " + place + " never released" + share_text(outcome_of(row), "opened there");
  finding.detail =
      handles + " that " + place + " opened had not been given back when the process ended.";
  const std::string release = name_of(function, row.origin.site);
  finding.fix = fix_by_others(outcome_of(row), release);
  if (finding.fix.empty()) {
    finding.fix =
        "Call " + release + " for what " + place + " opens, on every way through the program.";
  }
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

// CUDA_ERROR_NOT_PERMITTED: the driver answers it to calls from within a callback of a stream.
constexpr std::uint64_t kNotPermitted = 800;

std::string result_text(std::uint64_t result) {
  if (result == kNotPermitted) return "800, not permitted: from a callback of the stream";
  return result == 1 ? "invalid value" : "error " + std::to_string(result);
}

// Adds, for memory that was never freed, the frees of it that were tried and refused.
void add_refused_frees(const rows::Leaks& leaks, const rows::ExitLeak& leak,
                       rows::Finding& finding) {
  std::uint64_t tried = 0;
  for (const rows::InvalidFree& row : leaks.invalid_frees) {
    const bool is_of_leak = row.what == FreedWhat::kLiveMemory && row.process == leak.process &&
                            row.allocated_at && leak.origin.site &&
                            row.allocated_at->site == leak.origin.site;
    if (!is_of_leak) continue;
    const std::string at = row.origin.site ? " at " + site_text(row.origin.site) : std::string();
    finding.detail += " A free was tried " + count_of(row.count, "time", "times") + at +
                      " and refused (" + result_text(row.result) + ").";
    if (row.result == kNotPermitted) {
      finding.fix =
          "Free it outside of the callback, in which CUDA permits no call: after the "
          "stream was synchronized, or with cudaFreeAsync on that stream. " +
          finding.fix;
    }
    tried += row.count;
  }
  if (tried != 0) finding.evidence.add("refused_frees", tried);
}

// Explains which memory lay at the refused address, and the remedy.
void explain_invalid_free(const rows::InvalidFree& row, rows::Finding& finding) {
  const std::string free = row.function + " at " + site_text(row.origin.site);
  const std::string allocated = location_text(row.allocated_at, row.origin.site);
  const std::string before = location_text(row.freed_before_at, row.origin.site);
  const std::string at_before = before.empty() ? before : " at " + before;
  const std::string memory = allocated.empty() ? "the memory" : "what " + allocated + " allocated";
  switch (row.what) {
    case FreedWhat::kLiveMemory:
      finding.title = free + " was refused";
      finding.bytes = row.bytes;
      if (row.result == kNotPermitted) {
        finding.detail += memory + " is live, and CUDA permits no call from within a callback.";
        finding.fix = "Free " + memory + " after the stream was synchronized, not in its callback.";
        return;
      }
      finding.detail += memory + " is live, but this function does not free its kind.";
      finding.fix = "Free " + memory + " with the counterpart of the function that allocated it.";
      return;
    case FreedWhat::kFreedBefore:
      finding.title = free + " freed memory that had been freed before";
      finding.detail += memory + " had been freed" + at_before + '.';
      finding.fix = "Remove this free or the one before it" + at_before + ": " + memory +
                    " is to be freed once.";
      return;
    case FreedWhat::kEndedBefore:
      finding.title = free + " freed memory that had ended with its context";
      finding.detail += memory + " had ended with its context" + at_before + '.';
      finding.fix = "Free " + memory + " before its context ends" + at_before + ", or not at all.";
      return;
    case FreedWhat::kInsideLive: {
      const std::string offset = size_text(row.offset_bytes);
      finding.title = free + " freed an address within an allocation";
      finding.detail += "the address lies " + offset + " behind the start of " + memory + '.';
      finding.fix = "Free the address that " + (allocated.empty() ? "the allocation" : allocated) +
                    " was given, " + offset + " before this one.";
      return;
    }
    case FreedWhat::kNothingKnown:
      break;
  }
  finding.title = free + " freed memory that was not allocated";
  finding.detail += "the trace shows no allocation at the address.";
  finding.fix = "Free only what an allocation returned, and that once.";
}

rows::Finding invalid_free(const rows::InvalidFree& row) {
  rows::Finding finding = finding_of_rule(Rule::kInvalidFree);
  finding.process = row.process;
  finding.origin = row.origin;
  finding.time_ns = row.first_time_ns;
  finding.evidence.add("function", row.function);
  finding.evidence.add("result", row.result);
  finding.evidence.add("address_was_live", row.address_was_live);
  finding.evidence.add("count", row.count);
  finding.evidence.add("what", row.what);
  finding.evidence.add("allocated_at", row.allocated_at);
  finding.evidence.add("freed_before_at", row.freed_before_at);
  finding.detail = row.function + " was refused " + count_of(row.count, "time", "times") + " (" +
                   result_text(row.result) + "): ";
  explain_invalid_free(row, finding);
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
