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

std::string free_function(const Json& row) {
  const Json& site = row.at("site");
  const bool driver = site.is_object() && site.contains("api") && site.at("api").is_string() &&
                      site.at("api").get<std::string>().compare(0, 4, "cuda") != 0;
  for (const FreeFunction& function : kFreeFunctions) {
    if (row.at("kind") == function.kind) {
      return std::string(driver ? function.driver : function.runtime);
    }
  }
  return "its free function";
}

std::string holder_text(const Json& row) {
  return count_text(row.at("count"), "allocation", "allocations") + " of " +
         row.at("kind").get<std::string>() + " memory";
}

bool is_users_own(const Json& owner) {
  return owner.is_null() || owner == "program" || owner == "python_extension";
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
  const std::string free = free_function(row);
  if (rule == Rule::kLeak) {
    finding.title = bytes + " leaked at " + place;
    finding.detail = holder_text(row) + " from " + place + ", " + bytes +
                     ", had not been freed when the process ended.";
  } else {
    finding.title = bytes + " at " + place + " was left to the end of its context";
    finding.detail = holder_text(row) + " from " + place + ", " + bytes +
                     ", ended with its context and not by a free.";
    finding.evidence["ended_by"] = row.at("ended_by");
  }
  finding.fix = is_python(row.at("site"))
                    ? "Free what " + place + " allocates (" + free +
                          "), or let go of the object that holds it. It would give back " + bytes +
                          " (exact)."
                    : "Call " + free + " for what " + place + " allocates. It would give back " +
                          bytes + " (exact).";
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

void find_handles(const Json& report, Findings& findings) {
  for (const Json& row : report.at("leaks").at("handles")) {
    if (!is_users_own(row.at("owner")) || !ended_by_exit(report, row.at("process"))) continue;
    for (const FreeFunction& function : kHandleFunctions) {
      if (row.at("kind") != function.kind) continue;
      Finding finding = finding_at(Rule::kUnreleasedHandle, row);
      const std::string place = place_text(row.at("site"));
      const std::string handles = count_text(row.at("count"), "handle", "handles") + " (" +
                                  std::string(function.kind) + ')';
      finding.bytes = row.at("bytes");
      finding.time_ns = row.at("first_time_ns");
      finding.evidence = {{"kind", row.at("kind")}, {"count", row.at("count")}};
      finding.title = handles + " of " + place + " never released";
      finding.detail = handles + " that " + place +
                       " opened had not been given back when the "
                       "process ended.";
      finding.fix = "Call " + std::string(function.runtime) + " (" + std::string(function.driver) +
                    ") for what " + place + " opens.";
      findings.push_back(std::move(finding));
    }
  }
}

std::string result_text(const Json& result) {
  return result == 1 ? "invalid value" : "error " + result.dump();
}

Finding invalid_free(const Json& row) {
  Finding finding = finding_at(Rule::kInvalidFree, row);
  const auto function = row.at("function").get<std::string>();
  const std::string place = place_text(row.at("site"));
  finding.time_ns = row.at("first_time_ns");
  finding.evidence = {{"function", function},
                      {"result", row.at("result")},
                      {"address_was_live", row.at("address_was_live")},
                      {"count", row.at("count")}};
  finding.title = function + " at " + place + " freed memory that was not allocated";
  const std::string refused = function + " was refused " +
                              count_text(row.at("count"), "time", "times") + " (" +
                              result_text(row.at("result")) + "): ";
  if (row.at("address_was_live").get<bool>()) {
    finding.title = function + " at " + place + " was refused";
    finding.detail = refused + "the memory is live, but this function does not free its kind.";
    finding.fix = "Free the memory with the counterpart of the function that allocated it.";
    finding.bytes = row.at("bytes");
  } else {
    finding.detail = refused + "nothing was allocated at the address, or it had been freed before.";
    finding.fix =
        "Remove this free, or the one before it: each allocation is freed once, with the "
        "address that the allocation returned.";
  }
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
