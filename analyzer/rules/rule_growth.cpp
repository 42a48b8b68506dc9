// Places whose memory rises throughout the run.
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {

void find_growth(const RuleInput& input, Findings& findings) {
  for (const Json& row : input.report.at("leaks").at("growth")) {
    Finding finding = finding_at(Rule::kGrowth, row);
    finding.confidence = row.at("confidence") == "inferred" ? FindingConfidence::kInferred
                                                            : FindingConfidence::kHeuristic;
    finding.bytes = row.at("bytes");
    finding.time_ns = row.at("end_ns");
    for (const char* key : {"bytes_per_step", "steps", "rises", "allocations", "live_bytes",
                            "begin_ns", "end_ns", "forecast_ns"}) {
      finding.evidence[key] = row.at(key);
    }
    const std::string place = place_text(row.at("site"));
    const std::string bytes = size_text(row.at("bytes"));
    finding.title = "Memory from " + place + " grew by " + bytes;
    if (row.at("bytes_per_step").is_number()) {
      finding.title +=
          ", " + size_text(static_cast<std::uint64_t>(row.at("bytes_per_step").get<double>())) +
          " a step";
    }
    finding.detail = "After the warm-up the memory that " + place +
                     " holds rose throughout the run, by " + bytes + " in " +
                     count_text(row.at("rises"), "stretch", "stretches") +
                     ", and did not come back while the program went on allocating there.";
    if (row.at("forecast_ns").is_number()) {
      finding.detail += " At this rate the device is full " + duration_text(row.at("forecast_ns")) +
                        " after the start.";
    }
    finding.fix = row.at("level") == "framework"
                      ? "Look for what keeps tensors of " + place +
                            " alive: a list that is appended to, a loss kept without .item() or "
                            ".detach(), retain_graph. Growth would stop (inferred)."
                      : "Free what " + place +
                            " allocates in each round, or bound the cache that keeps it. Growth "
                            "would stop (inferred).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
