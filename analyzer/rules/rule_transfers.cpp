// SPDX-License-Identifier: Apache-2.0
// Copies that cost more than they must. transfers.hotspots[] decides which pattern they have.
#include <algorithm>
#include <cstdio>
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100);
  return text;
}

std::string at_most_text(double share) {
  return share < 0.01 ? "less than 1 %" : "at most " + percent_text(share);
}

std::string what_is_wrong(const rows::Hotspot& row) {
  switch (row.rule) {
    case Rule::kRepeatedCopies:
      return "send the same bytes again, " + std::to_string(row.repeated_count.value_or(0)) +
             " of them";
    case Rule::kPageableCopies:
      return "use pageable host memory, so the program waits for each";
    case Rule::kSynchronousCopies:
      return "each made the program wait for the GPU";
    case Rule::kPingPong: {
      const std::string down = location_text(row.down_at, row.origin.site);
      return "bring back what was copied down before" + (down.empty() ? down : " at " + down);
    }
    case Rule::kLowBandwidth:
      return "reach " + percent_text(row.link_share.value_or(0)) + " of what the link can carry";
    case Rule::kCopiesNotHidden:
      return "are not hidden behind kernels";
    default:
      return "are small, " + size_text(row.mean_bytes) +
             " on average; each pays for a call of its own";
  }
}

std::string what_it_costs(const rows::Hotspot& row) {
  const std::string lost = duration_text(row.time_lost_ns);
  switch (row.rule) {
    case Rule::kRepeatedCopies:
      return ' ' + std::to_string(row.repeated_count.value_or(0)) + " of them (" +
             size_text(row.repeated_bytes.value_or(0)) +
             ") sent the same bytes as a copy before, by a hash of what they sent. Whether the GPU "
             "still held these bytes is not known.";
    case Rule::kLowBandwidth: {
      const bool pageable = row.source_memory == MemoryClass::kPageable ||
                            row.destination_memory == MemoryClass::kPageable;
      return " They took " + duration_text(row.gpu_time_ns.value_or(0)) + ", " + lost +
             " more than the link needs" + (pageable ? "; their host memory is pageable." : ".");
    }
    case Rule::kCopiesNotHidden:
      return " They took " + duration_text(row.gpu_time_ns.value_or(0)) +
             " on the GPU; no kernel ran there for " + lost + " of it.";
    default:
      return " They held the calling thread for " + lost + '.';
  }
}

std::string what_is_at_stake(const rows::Hotspot& row) {
  if (row.rule == Rule::kRepeatedCopies) {
    return " It would save " + size_text(row.repeated_bytes.value_or(0)) +
           " of copies (exact), which held the calling thread for " +
           duration_text(row.time_lost_ns) + " (exact).";
  }
  if (row.rule == Rule::kPingPong) {
    return " The calls back took " + duration_text(row.returned_up_ns.value_or(0)) +
           ", those of both ways " + duration_text(row.returned_host_ns) + " (exact).";
  }
  if (row.rule == Rule::kSynchronousCopies) {
    return " The calls took " + duration_text(row.time_lost_ns) +
           " (exact); how long the GPU then stood idle the trace does not show.";
  }
  const bool is_of_gpu = row.rule == Rule::kLowBandwidth || row.rule == Rule::kCopiesNotHidden;
  return (is_of_gpu ? " At stake: " : " The calls took ") + duration_text(row.time_lost_ns) +
         " (exact).";
}

// The one of the two copies that can go, by the state of the GPU's memory between them; empty if
// that differs or is not known.
std::string fix_for_round_trips(const rows::Hotspot& row) {
  const std::uint64_t trips = row.returned_count;
  const std::string up = site_text(row.origin.site);
  const std::string down = location_text(row.down_at, row.origin.site);
  const std::string the_copy_down = "the copy down" + (down.empty() ? down : " at " + down);
  if (row.returned_to_new_memory == trips) {
    return "The GPU's memory was freed in between, so the data were parked on purpose: keep them "
           "there if they fit, else suppress this.";
  }
  if (row.returned_to_same_memory != trips || trips == 0) return {};
  const std::string away = duration_text(row.returned_away_ns.value_or(0) / trips);
  return "Remove the copy back at " + up +
         ": the GPU's memory that it fills stayed allocated while the data were away (for " + away +
         " on average), so parking them saved no memory. Only what the host or a kernel changed in "
         "between has to come back. Remove " +
         the_copy_down + ", too, where nothing on the host reads it.";
}

// Part of the time between the first and the last of the copies that the remedy could save at most.
double own_share(const rows::Hotspot& row) {
  const auto own_ns = static_cast<double>(row.own_time_ns.value_or(0));
  const auto loop_ns = static_cast<double>(row.loop_ns.value_or(0));
  return own_ns >= loop_ns ? 1 : own_ns / loop_ns;
}

// Steps of the process, also those that the report leaves out.
std::uint64_t count_steps(const rows::Report& report, const std::string& process) {
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;
  for (const rows::Step& step : report.steps) {
    if (step.process != process) continue;
    first = std::min(first, step.index);
    last = std::max(last, step.index);
  }
  return last < first ? 0 : last - first + 1;
}

// - Repeated copies are a warning at any share: a user who records hashes asked for it.
// - Reading a result once a step is normal for most programs.
bool costs_little(const rows::Hotspot& row, const RuleInput& input) {
  if (row.rule == Rule::kRepeatedCopies) return false;
  if (own_share(row) < input.thresholds[Threshold::kTransferShare]) return true;
  return row.rule == Rule::kSynchronousCopies &&
         row.count <= count_steps(input.report, row.process);
}

void add_evidence(const rows::Hotspot& row, rows::Evidence& evidence) {
  evidence.add("direction", row.direction);
  evidence.add("api", row.api);
  evidence.add("count", row.count);
  evidence.add("bytes", row.bytes);
  evidence.add("mean_bytes", row.mean_bytes);
  evidence.add("time_lost_ns", row.time_lost_ns);
  if (row.own_time_ns) evidence.add("own_time_ns", *row.own_time_ns);
  if (row.loop_ns) evidence.add("loop_ns", *row.loop_ns);
  evidence.add("source_memory", row.source_memory);
  evidence.add("destination_memory", row.destination_memory);
  if (row.rule == Rule::kPingPong) {
    evidence.add("returned_count", row.returned_count);
    evidence.add("returned_bytes", row.returned_bytes);
    evidence.add("returned_host_ns", row.returned_host_ns);
    evidence.add("down_at", row.down_at);
    evidence.add("returned_up_ns", row.returned_up_ns);
    evidence.add("returned_away_ns", row.returned_away_ns);
    evidence.add("returned_to_same_memory", row.returned_to_same_memory);
    evidence.add("returned_to_new_memory", row.returned_to_new_memory);
  }
  if (row.rule == Rule::kRepeatedCopies) {
    evidence.add("repeated_count", row.repeated_count);
    evidence.add("repeated_bytes", row.repeated_bytes);
  }
  if (row.gpu_time_ns) evidence.add("gpu_time_ns", *row.gpu_time_ns);
  if (row.bandwidth_bytes_per_s) evidence.add("bandwidth_bytes_per_s", *row.bandwidth_bytes_per_s);
  if (row.link_share) evidence.add("link_share", *row.link_share);
  if (row.overlapped_ns) evidence.add("overlapped_ns", *row.overlapped_ns);
}

}  // namespace

void find_transfer_faults(const RuleInput& input, Findings& findings) {
  for (const rows::Hotspot& row : input.report.transfers.hotspots) {
    rows::Finding finding = finding_at(row.rule, row);
    finding.bytes = row.bytes;
    finding.saves = {std::nullopt, row.own_time_ns, rows::SavesBasis::kInferred};
    add_evidence(row, finding.evidence);
    const std::string place = site_text(row.origin.site);
    const std::uint64_t wrong = row.rule == Rule::kPingPong ? row.returned_count : row.count;
    finding.title = count_of(wrong, "copy", "copies") + " at " + place + ' ' + what_is_wrong(row);
    finding.detail = count_of(row.count, "copy", "copies") + " (" +
                     std::string(name_of(row.direction)) + ", " + row.api + ") from " + place +
                     " moved " + size_text(row.bytes) + ", " + size_text(row.mean_bytes) +
                     " each." + what_it_costs(row);
    if (row.rule == Rule::kPingPong) finding.fix = fix_for_round_trips(row);
    if (finding.fix.empty()) finding.fix = row.advice;
    finding.fix += what_is_at_stake(row);
    if (costs_little(row, input)) finding.severity = Severity::kInfo;
    if (row.own_time_ns && row.loop_ns) {
      finding.fix += " By themselves they need " + at_most_text(own_share(row)) +
                     " of the time from the first of them to the last.";
    }
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
