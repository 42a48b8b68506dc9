// Copies that cost more than they must. What they are is decided where transfers.hotspots[] is
// made.
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

Rule rule_named(const Json& name) {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (name == kRules[i].name) return static_cast<Rule>(i);
  }
  return Rule::kCount;
}

std::string what_is_wrong(Rule rule) {
  switch (rule) {
    case Rule::kPageableCopies:
      return "are asynchronous in name only: the host memory is pageable";
    case Rule::kSynchronousCopies:
      return "each made the program wait for the GPU";
    case Rule::kPingPong:
      return "bring back what was copied down before";
    default:
      return "are small; each pays for a call of its own";
  }
}

}  // namespace

void find_transfer_faults(const RuleInput& input, Findings& findings) {
  for (const Json& row : input.report.at("transfers").at("hotspots")) {
    const Rule rule = rule_named(row.at("rule"));
    Finding finding = finding_at(rule, row);
    finding.level = nullptr;
    finding.bytes = row.at("bytes");
    for (const char* key : {"direction", "api", "count", "bytes", "mean_bytes", "time_lost_ns",
                            "source_memory", "destination_memory"}) {
      finding.evidence[key] = row.at(key);
    }
    if (rule == Rule::kPingPong) {
      finding.evidence["returned_count"] = row.at("returned_count");
      finding.evidence["returned_bytes"] = row.at("returned_bytes");
    }
    const std::string place = place_text(row.at("site"));
    const std::string copies = count_text(row.at("count"), "copy", "copies");
    finding.title = copies + " at " + place + ' ' + what_is_wrong(rule);
    finding.detail = copies + " (" + row.at("direction").get<std::string>() + ", " +
                     row.at("api").get<std::string>() + ") from " + place + " moved " +
                     size_text(row.at("bytes")) + ", " + size_text(row.at("mean_bytes")) +
                     " each, and held the calling thread for " +
                     duration_text(row.at("time_lost_ns")) + '.';
    finding.fix = row.at("advice").get<std::string>() + " The calls took " +
                  duration_text(row.at("time_lost_ns")) + " (exact).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
