// Places whose memory rises throughout the run.
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// "28 blocks of 256.0 KiB": what came to stay.
std::string blocks_text(const Json& row) {
  const auto known = row.find("blocks");
  const std::uint64_t blocks = known == row.end() ? 0 : known->get<std::uint64_t>();
  const auto bytes = row.at("bytes").get<std::uint64_t>();
  if (blocks == 0) return size_text(bytes);
  return count_text(blocks, "block", "blocks") + " of " + size_text(bytes / blocks) +
         (bytes % blocks == 0 ? "" : " on average");
}

// "16.0 KiB a step over 138 steps" or, without steps, "535.2 MiB a second".
std::string rate_text(const Json& row) {
  const auto bytes = row.at("bytes").get<double>();
  if (row.at("bytes_per_step").is_number()) {
    return size_text(static_cast<std::uint64_t>(row.at("bytes_per_step").get<double>())) +
           " a step over " + count_text(row.at("steps"), "step", "steps");
  }
  const double seconds = (row.at("end_ns").get<double>() - row.at("begin_ns").get<double>()) / 1e9;
  return seconds <= 0 ? std::string()
                      : size_text(static_cast<std::uint64_t>(bytes / seconds)) + " a second";
}

}  // namespace

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
    const std::string rate = rate_text(row);
    const std::string when =
        "from " + duration_text(row.at("begin_ns")) + " to " + duration_text(row.at("end_ns"));
    finding.title = "Memory from " + place + " grew by " + bytes + ' ' + when +
                    (rate.empty() ? rate : ", " + rate);
    finding.detail = "After the warm-up the memory that " + place +
                     " holds rose throughout the run, by " + bytes + " in " +
                     count_text(row.at("rises"), "stretch", "stretches") +
                     ", and did not come back while the program went on allocating there.";
    if (row.at("forecast_ns").is_number()) {
      finding.detail += " At this rate the device is full " + duration_text(row.at("forecast_ns")) +
                        " after the start.";
    }
    finding.fix = "After the warm-up " + blocks_text(row) + " from " + place + " came to stay: " +
                  (row.at("level") == "framework"
                       ? "something keeps the tensors, as a list that is appended to, a loss kept "
                         "without .item() or .detach(), or retain_graph does."
                       : "free them where they are no longer needed, or bound the cache or list "
                         "that keeps them.") +
                  " Growth would stop (inferred).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
