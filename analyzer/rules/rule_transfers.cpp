// SPDX-License-Identifier: Apache-2.0
// Copies that cost more than they must. What they are is decided where transfers.hotspots[] is
// made.
#include <cstdio>
#include <initializer_list>
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
  if (rule == Rule::kPingPong && row.contains("returned_up_ns")) {
    return " The calls back took " + duration_text(row.at("returned_up_ns")) +
           ", those of both ways " + duration_text(row.at("returned_host_ns")) + " (exact).";
  }
  if (rule == Rule::kSynchronousCopies) {
    return " The calls took " + duration_text(row.at("time_lost_ns")) +
           " (exact); how long the GPU then stood idle the trace does not show.";
  }
  const bool is_of_gpu = rule == Rule::kLowBandwidth || rule == Rule::kCopiesNotHidden;
  return (is_of_gpu ? " At stake: " : " The calls took ") + duration_text(row.at("time_lost_ns")) +
         " (exact).";
}

// Which of the two copies can go, by what became of the GPU's memory between them; empty where that
// differs or is not known.
std::string fix_for_round_trips(const Json& row) {
  if (!row.contains("returned_to_same_memory")) return {};
  const auto trips = row.at("returned_count").get<std::uint64_t>();
  const std::string up = place_text(row.at("site"));
  const std::string down = second_place_text(row, "down_at");
  const std::string the_copy_down = "the copy down" + (down.empty() ? down : " at " + down);
  if (row.at("returned_to_new_memory") == trips) {
    return "The GPU's memory was freed in between, so the data were parked on purpose: keep them "
           "there if they fit, else suppress this.";
  }
  if (row.at("returned_to_same_memory") != trips) return {};
  const std::string away = duration_text(row.at("returned_away_ns").get<std::uint64_t>() / trips);
  return "Remove the copy back at " + up +
         ": the GPU's memory that it fills stayed allocated while the data were away (for " + away +
         " on average), so parking them saved no memory. Only what the host or a kernel changed in "
         "between has to come back. Remove " +
         the_copy_down + ", too, where nothing on the host reads it.";
}

void add_evidence(Rule rule, const Json& row, Finding& finding) {
  const auto add_known = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (row.contains(key)) finding.evidence[key] = row.at(key);
    }
  };
  add_known({"direction", "api", "count", "bytes", "mean_bytes", "time_lost_ns", "source_memory",
             "destination_memory"});
  if (rule == Rule::kPingPong) {
    add_known({"returned_count", "returned_bytes", "returned_host_ns", "down_at", "returned_up_ns",
               "returned_away_ns", "returned_to_same_memory", "returned_to_new_memory"});
  }
  if (rule == Rule::kRepeatedCopies) add_known({"repeated_count", "repeated_bytes"});
  for (const char* key : {"gpu_time_ns", "bandwidth_bytes_per_s", "link_share", "overlapped_ns"}) {
    if (row.contains(key) && !row.at(key).is_null()) finding.evidence[key] = row.at(key);
  }
}

}  // namespace

void find_transfer_faults(const RuleInput& input, Findings& findings) {
  for (const Json& row : input.report.at("transfers").at("hotspots")) {
    const Rule rule = rule_named(row.at("rule"));
    Finding finding = finding_at(rule, row);
    finding.level = nullptr;
    finding.bytes = row.at("bytes");
    add_evidence(rule, row, finding);
    const std::string place = place_text(row.at("site"));
    const std::string copies = count_text(row.at("count"), "copy", "copies");
    const Json& wrong = row.at(rule == Rule::kPingPong ? "returned_count" : "count");
    finding.title =
        count_text(wrong, "copy", "copies") + " at " + place + ' ' + what_is_wrong(rule, row);
    finding.detail = copies + " (" + row.at("direction").get<std::string>() + ", " +
                     row.at("api").get<std::string>() + ") from " + place + " moved " +
                     size_text(row.at("bytes")) + ", " + size_text(row.at("mean_bytes")) +
                     " each." + what_it_costs(rule, row);
    if (rule == Rule::kPingPong) finding.fix = fix_for_round_trips(row);
    if (finding.fix.empty()) finding.fix = row.at("advice");
    finding.fix += what_is_at_stake(rule, row);
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
