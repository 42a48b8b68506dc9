// SPDX-License-Identifier: Apache-2.0
// Memory that was never freed, and frees that were refused.
#include <array>
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// How memory of a kind goes back, in the words of the CUDA runtime and of the driver.
struct FreeFunction {
  std::string_view kind;
  std::string_view runtime;
  std::string_view driver;
};
constexpr std::array kFreeFunctions = {
    FreeFunction{"device", "cudaFree", "cuMemFree"},
    FreeFunction{"pitched", "cudaFree", "cuMemFree"},
    FreeFunction{"array", "cudaFreeArray", "cuArrayDestroy"},
    FreeFunction{"vmm", "cuMemRelease", "cuMemRelease"},
    FreeFunction{"vmm_host", "cuMemRelease", "cuMemRelease"},
    FreeFunction{"graph", "cudaFreeAsync", "cuMemFreeAsync"},
    FreeFunction{"stream_ordered", "cudaFreeAsync", "cuMemFreeAsync"},
    FreeFunction{"managed", "cudaFree", "cuMemFree"},
    FreeFunction{"pinned", "cudaFreeHost", "cuMemFreeHost"},
    FreeFunction{"registered", "cudaHostUnregister", "cuMemHostUnregister"},
};

bool is_python(const Json& site) { return site.is_object() && site.at("kind") == "python"; }

// The one whose counterpart the place called.
std::string name_of(const FreeFunction& function, const Json& site) {
  const bool driver = site.is_object() && site.contains("api") && site.at("api").is_string() &&
                      site.at("api").get<std::string>().compare(0, 4, "cuda") != 0;
  return std::string(driver ? function.driver : function.runtime);
}

std::string free_function(const Json& row) {
  for (const FreeFunction& function : kFreeFunctions) {
    if (row.at("kind") == function.kind) return name_of(function, row.at("site"));
  }
  return "its free function";
}

// ", 1 of 3 allocations there": how many of what a place made were not given back, where some were.
std::string share_text(const Json& row, const char* all, std::string_view what) {
  const auto made = row.find(all);
  if (made == row.end() || !made->is_number() || *made <= row.at("count")) return {};
  return ", " + row.at("count").dump() + " of " + made->dump() + ' ' + std::string(what);
}

// "its context's end at main.cpp:12 (main)".
std::string teardown_text(const Json& row) {
  std::string text = row.at("ended_by") == "primary_context_reset" ? "the reset of the device"
                     : row.at("ended_by") == "primary_context_released"
                         ? "the release of its context"
                         : "the end of its context";
  const std::string place = second_place_text(row, "ended_at");
  return place.empty() ? text : text + " at " + place;
}

// Where a row says what became of the others that its place made, and in which words.
struct FateKeys {
  const char* made_count;
  const char* last_made_ns;
  const char* back_count;
  const char* back_at;
  const char* back_elsewhere;
  std::string_view made;
  std::string_view back;
};
constexpr FateKeys kAllocationKeys = {"allocations", "last_allocation_ns", "freed_count",
                                      "freed_at",    "freed_elsewhere",    "allocated",
                                      "freed"};
constexpr FateKeys kHandleKeys = {"opened_count",     "last_opened_ns", "closed_count", "closed_at",
                                  "closed_elsewhere", "opened",         "released"};

// "made at 2.6 ms in step 3", "made from 5.0 s to 7.5 s"; empty where that is not known.
std::string made_text(const Json& row) {
  const Json& first = row.at("first_time_ns");
  const Json& last = row.at("last_time_ns");
  if (!first.is_number() || !last.is_number()) return {};
  if (row.at("count") != 1) {
    return "made from " + duration_text(first) + " to " + duration_text(last);
  }
  const auto step = row.find("first_step");
  return "made at " + duration_text(first) +
         (step != row.end() && step->is_number() ? " in step " + step->dump() : std::string());
}

// "the last one, made at 2.6 ms,": which of its place's the row is about.
std::string which_text(const Json& row, const FateKeys& keys) {
  const Json& last_made = row.at(keys.last_made_ns);
  const bool is_last = last_made.is_number() && row.at("first_time_ns") == last_made;
  const std::string made = made_text(row);
  return (row.at("count") != 1 ? row.at("count").dump()
          : is_last            ? "the last one"
                               : "one") +
         (made.empty() ? made : ", " + made + ',');
}

// "Of the 3 that main.cpp:3 (load) allocated 2 were freed, at main.cpp:9 (main); the last one, made
// at 2.6 ms, was not.": empty where none was, or where that is not known.
std::string fate_text(const Json& row, const FateKeys& keys) {
  const auto back = row.find(keys.back_count);
  if (back == row.end() || !back->is_number() || *back == 0) return {};
  if (!row.at("site").is_object()) return {};  // perhaps several places
  const std::string at = second_place_text(row, keys.back_at);
  const bool elsewhere = row.at(keys.back_elsewhere) == true;
  return "Of the " + row.at(keys.made_count).dump() + " that " + place_text(row.at("site")) + ' ' +
         std::string(keys.made) + ' ' + back->dump() + (*back == 1 ? " was " : " were ") +
         std::string(keys.back) + (at.empty() ? at : (elsewhere ? ", some at " : ", at ") + at) +
         "; " + which_text(row, keys) + (row.at("count") == 1 ? " was not. " : " were not. ");
}

// What to do for the rest where others of the same place came back: empty where none did.
std::string fix_by_others(const Json& row, const FateKeys& keys, const std::string& function) {
  const std::string fate = fate_text(row, keys);
  if (fate.empty()) return fate;
  const bool knows_where = !second_place_text(row, keys.back_at).empty();
  const std::string which = row.at("count") == 1 ? "it" : "them";
  return fate + "Call " + function + " for " + which + ", too: find what keeps " + which +
         " from " + (knows_where ? "that call." : "being " + std::string(keys.back) + " likewise.");
}

// "Nothing freed any of the 3, which were made from 5.0 s to 7.5 s. ": where no call gave back one
// of them.
std::string nothing_freed_text(const Json& row) {
  const auto freed = row.find("freed_count");
  if (freed == row.end() || *freed != 0) return {};
  const bool is_one = row.at("count") == 1;
  const std::string which = is_one ? "it" : "any of the " + row.at("count").dump();
  const std::string made = made_text(row);
  return "Nothing freed " + which +
         (made.empty() ? made : (is_one ? "; it was " : ", which were ") + made) + ". ";
}

std::string holder_text(const Json& row) {
  return count_text(row.at("count"), "allocation", "allocations") + " of " +
         row.at("kind").get<std::string>() + " memory";
}

bool is_users_own(const Json& owner) {
  return owner.is_null() || owner == "program" || owner == "python_extension";
}

// `before`: when it is too late, where the end of a context took the memory.
std::string fix_for_exit(const Json& row, const std::string& before) {
  const std::string free = free_function(row);
  const std::string what = "what " + place_text(row.at("site")) + " allocates";
  // A program that calls the driver itself has no object that would do it.
  const bool by_object = is_python(row.at("site")) && row.at("owner") != "program";
  std::string fix;
  if (before.empty()) {
    if (!by_object) fix = fix_by_others(row, kAllocationKeys, free);
    if (!fix.empty()) return fix;
    fix = fate_text(row, kAllocationKeys) + nothing_freed_text(row);
  }
  return fix + (by_object ? "Free " + what + " (" + free + ')' + before +
                                ", or let go of the object that holds it."
                          : "Call " + free + " for " + what + before + '.');
}

Finding exit_finding(Rule rule, const Json& row) {
  Finding finding = finding_at(rule, row);
  const std::string bytes = size_text(row.at("bytes"));
  const std::string place = place_text(row.at("site"));
  finding.bytes = row.at("bytes");
  finding.time_ns = row.at("first_time_ns");
  finding.evidence = {{"count", row.at("count")},
                      {"kind", row.at("kind")},
                      {"class", row.at("class")},
                      {"first_time_ns", row.at("first_time_ns")},
                      {"last_time_ns", row.at("last_time_ns")}};
  for (const char* key : {"allocations", "freed_count", "freed_at", "first_step"}) {
    if (row.contains(key)) finding.evidence[key] = row.at(key);
  }
  std::string before;
  if (rule == Rule::kLeak) {
    finding.title =
        bytes + " leaked at " + place + share_text(row, "allocations", "allocations there");
    finding.detail = holder_text(row) + " from " + place + ", " + bytes +
                     ", had not been freed when the process ended.";
  } else {
    const std::string teardown = teardown_text(row);
    finding.title = bytes + " of " + place + " was never freed: " + teardown + " took it";
    finding.detail = holder_text(row) + " from " + place + ", " + bytes +
                     ", ended with its context and not by a free.";
    finding.evidence["ended_by"] = row.at("ended_by");
    if (row.contains("ended_at")) finding.evidence["ended_at"] = row.at("ended_at");
    before = " before " + teardown;
  }
  finding.fix = fix_for_exit(row, before) + " It would give back " + bytes + " (exact).";
  if (row.contains("exact")) finding.confidence = FindingConfidence::kInferred;
  return finding;
}

// Python programs load many libraries. Where nobody knows which code allocated, it may be one that
// keeps a buffer as long as the process lives.
void doubt_unknown_owner(const Json& report, Finding& finding) {
  if (!finding.owner.is_null()) return;
  for (const Json& process : report.at("processes")) {
    if (process.at("id") != finding.process || process.at("python").is_null()) continue;
    finding.severity = Severity::kWarning;
    finding.confidence = FindingConfidence::kInferred;
    finding.detail += " Who allocated it is not known; it may be a library's own buffer.";
  }
}

// Physical memory of the program's own is a leak already, with its bytes.
constexpr std::array kHandleFunctions = {
    FreeFunction{"imported_vmm", "cuMemRelease", "cuMemRelease"},
    FreeFunction{"ipc", "cudaIpcCloseMemHandle", "cuIpcCloseMemHandle"},
    FreeFunction{"external", "cudaDestroyExternalMemory", "cuDestroyExternalMemory"},
    FreeFunction{"pool", "cudaMemPoolDestroy", "cuMemPoolDestroy"},
    FreeFunction{"graph_executable", "cudaGraphExecDestroy", "cuGraphExecDestroy"},
};

bool ended_by_exit(const Json& report, const Json& process) {
  for (const Json& trace : report.at("traces")) {
    if (trace.at("process") == process) return trace.at("end") == "exit";
  }
  return false;
}

Finding handle_finding(const Json& row, const FreeFunction& function) {
  Finding finding = finding_at(Rule::kUnreleasedHandle, row);
  const std::string place = place_text(row.at("site"));
  const std::string handles =
      count_text(row.at("count"), "handle", "handles") + " (" + std::string(function.kind) + ')';
  finding.bytes = row.at("bytes");
  finding.time_ns = row.at("first_time_ns");
  finding.evidence = {{"kind", row.at("kind")}, {"count", row.at("count")}};
  for (const char* key : {"opened_count", "closed_count", "closed_at"}) {
    if (row.contains(key)) finding.evidence[key] = row.at(key);
  }
  finding.title = handles + " of " + place + " never released" +
                  share_text(row, "opened_count", "opened there");
  finding.detail = handles + " that " + place +
                   " opened had not been given back when the "
                   "process ended.";
  const std::string release = name_of(function, row.at("site"));
  finding.fix = fix_by_others(row, kHandleKeys, release);
  if (finding.fix.empty()) {
    finding.fix =
        "Call " + release + " for what " + place + " opens, on every way through the program.";
  }
  return finding;
}

void find_handles(const Json& report, Findings& findings) {
  for (const Json& row : report.at("leaks").at("handles")) {
    if (!is_users_own(row.at("owner")) || !ended_by_exit(report, row.at("process"))) continue;
    for (const FreeFunction& function : kHandleFunctions) {
      if (row.at("kind") == function.kind) findings.push_back(handle_finding(row, function));
    }
  }
}

std::string result_text(const Json& result) {
  return result == 1 ? "invalid value" : "error " + result.dump();
}

// What lay at the address that was refused, and what to do about it.
void explain_invalid_free(const Json& row, Finding& finding) {
  const std::string free =
      row.at("function").get<std::string>() + " at " + place_text(row.at("site"));
  const std::string allocated = second_place_text(row, "allocated_at");
  const std::string before = second_place_text(row, "freed_before_at");
  const std::string memory = allocated.empty() ? "the memory" : "what " + allocated + " allocated";
  const Json& what = row.at("what");
  if (what == "live_memory") {
    finding.title = free + " was refused";
    finding.detail += memory + " is live, but this function does not free its kind.";
    finding.fix = "Free " + memory + " with the counterpart of the function that allocated it.";
    finding.bytes = row.at("bytes");
  } else if (what == "freed_before") {
    finding.title = free + " freed memory that had been freed before";
    finding.detail += memory + " had been freed" + (before.empty() ? "" : " at " + before) + '.';
    finding.fix = "Remove this free or the one before it" +
                  (before.empty() ? "" : " at " + before) + ": " + memory + " is to be freed once.";
  } else if (what == "ended_before") {
    finding.title = free + " freed memory that had ended with its context";
    finding.detail +=
        memory + " had ended with its context" + (before.empty() ? "" : " at " + before) + '.';
    finding.fix = "Free " + memory + " before its context ends" +
                  (before.empty() ? "" : " at " + before) + ", or not at all.";
  } else if (what == "inside_live_memory") {
    const std::string offset = size_text(row.at("offset_bytes"));
    finding.title = free + " freed an address within an allocation";
    finding.detail += "the address lies " + offset + " behind the begin of " + memory + '.';
    finding.fix = "Free the address that " + (allocated.empty() ? "the allocation" : allocated) +
                  " was given, " + offset + " before this one.";
  } else {
    finding.title = free + " freed memory that was not allocated";
    finding.detail += "the trace shows no allocation at the address.";
    finding.fix = "Free only what an allocation returned, and that once.";
  }
}

Finding invalid_free(const Json& row) {
  Finding finding = finding_at(Rule::kInvalidFree, row);
  finding.time_ns = row.at("first_time_ns");
  finding.evidence = {{"function", row.at("function")},
                      {"result", row.at("result")},
                      {"address_was_live", row.at("address_was_live")},
                      {"count", row.at("count")},
                      {"what", row.at("what")},
                      {"allocated_at", row.at("allocated_at")},
                      {"freed_before_at", row.at("freed_before_at")}};
  finding.detail = row.at("function").get<std::string>() + " was refused " +
                   count_text(row.at("count"), "time", "times") + " (" +
                   result_text(row.at("result")) + "): ";
  explain_invalid_free(row, finding);
  return finding;
}

}  // namespace

void find_leaks(const RuleInput& input, Findings& findings) {
  const Json& leaks = input.report.at("leaks");
  const std::uint64_t least_bytes = input.thresholds.bytes(Threshold::kLeakBytes);
  for (const Json& row : leaks.at("exit")) {
    if (row.at("bytes").get<std::uint64_t>() < least_bytes) continue;
    if (row.at("class") == "lost" && row.at("level") != "framework") {
      findings.push_back(exit_finding(Rule::kLeak, row));
      doubt_unknown_owner(input.report, findings.back());
    } else if (row.at("class") == "context_destroyed" && is_users_own(row.at("owner"))) {
      findings.push_back(exit_finding(Rule::kLeakUntilContextEnd, row));
    }
  }
  find_handles(input.report, findings);
  for (const Json& row : leaks.at("invalid_frees")) findings.push_back(invalid_free(row));
}

}  // namespace gpumemtrace::analyzer
