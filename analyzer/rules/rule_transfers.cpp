// Copies that cost more than they must. What they are is decided where transfers.hotspots[] is
// made.
#include <cstdio>
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

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100);
  return text;
}

std::string what_is_wrong(Rule rule, const Json& row) {
  switch (rule) {
    case Rule::kRepeatedCopies:
      return "send the same bytes again, " + row.at("repeated_count").dump() + " of them";
    case Rule::kPageableCopies:
      return "are asynchronous in name only: the host memory is pageable";
    case Rule::kSynchronousCopies:
      return "each made the program wait for the GPU";
    case Rule::kPingPong: {
      const std::string down = second_place_text(row, "down_at");
      return "bring back what was copied down before" + (down.empty() ? down : " at " + down);
    }
    case Rule::kLowBandwidth:
      return "reach " + percent_text(row.at("link_share")) + " of what the link can carry";
    case Rule::kCopiesNotHidden:
      return "are not hidden behind kernels";
    default:
      return "are small, " + size_text(row.at("mean_bytes")) +
             " on average; each pays for a call of its own";
  }
}

std::string what_it_costs(Rule rule, const Json& row) {
  const std::string lost = duration_text(row.at("time_lost_ns"));
  switch (rule) {
    case Rule::kRepeatedCopies:
      return ' ' + row.at("repeated_count").dump() + " of them (" +
             size_text(row.at("repeated_bytes")) +
             ") sent the same bytes as a copy before, by a hash of what they sent. Whether the GPU "
             "still held these bytes is not known.";
    case Rule::kLowBandwidth: {
      const bool pageable =
          row.at("source_memory") == "pageable" || row.at("destination_memory") == "pageable";
      return " They took " + duration_text(row.at("gpu_time_ns")) + ", " + lost +
             " more than the link needs" + (pageable ? "; their host memory is pageable." : ".");
    }
    case Rule::kCopiesNotHidden:
      return " They took " + duration_text(row.at("gpu_time_ns")) +
             " on the GPU; no kernel ran there for " + lost + " of it.";
    default:
      return " They held the calling thread for " + lost + '.';
  }
}

std::string what_is_at_stake(Rule rule, const Json& row) {
  if (rule == Rule::kRepeatedCopies) {
    return " It would save " + size_text(row.at("repeated_bytes")) +
           " of copies (exact), which held the calling thread for " +
           duration_text(row.at("time_lost_ns")) + " (exact).";
  }
  if (rule == Rule::kPingPong && row.contains("returned_host_ns")) {
    return " The calls of both ways took " + duration_text(row.at("returned_host_ns")) +
           " (exact).";
  }
  if (rule == Rule::kSynchronousCopies) {
    return " The calls took " + duration_text(row.at("time_lost_ns")) +
           " (exact); how long the GPU then stood idle the trace does not show.";
  }
  const bool is_of_gpu = rule == Rule::kLowBandwidth || rule == Rule::kCopiesNotHidden;
  return (is_of_gpu ? " At stake: " : " The calls took ") + duration_text(row.at("time_lost_ns")) +
         " (exact).";
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
      for (const char* key : {"returned_host_ns", "down_at"}) {
        if (row.contains(key)) finding.evidence[key] = row.at(key);
      }
    }
    if (rule == Rule::kRepeatedCopies) {
      finding.evidence["repeated_count"] = row.at("repeated_count");
      finding.evidence["repeated_bytes"] = row.at("repeated_bytes");
    }
    for (const char* key :
         {"gpu_time_ns", "bandwidth_bytes_per_s", "link_share", "overlapped_ns"}) {
      if (row.contains(key) && !row.at(key).is_null()) finding.evidence[key] = row.at(key);
    }
    const std::string place = place_text(row.at("site"));
    const std::string copies = count_text(row.at("count"), "copy", "copies");
    finding.title = copies + " at " + place + ' ' + what_is_wrong(rule, row);
    finding.detail = copies + " (" + row.at("direction").get<std::string>() + ", " +
                     row.at("api").get<std::string>() + ") from " + place + " moved " +
                     size_text(row.at("bytes")) + ", " + size_text(row.at("mean_bytes")) +
                     " each." + what_it_costs(rule, row);
    finding.fix = row.at("advice").get<std::string>() + what_is_at_stake(rule, row);
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
