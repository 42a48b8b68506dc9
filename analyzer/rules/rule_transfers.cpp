// SPDX-License-Identifier: Apache-2.0
// Finds copies that cost more than they must. Each row of transfers.hotspots[] names its pattern.
#include <algorithm>
#include <cstdio>
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

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

std::string_view what_is_wrong(Rule rule) {
  switch (rule) {
    case Rule::kRepeatedCopies:
      return sentences::kSameBytes;
    case Rule::kPageableCopies:
      return sentences::kPageable;
    case Rule::kSynchronousCopies:
      return sentences::kSynchronous;
    case Rule::kPingPong:
      return sentences::kComeBack;
    case Rule::kLowBandwidth:
      return sentences::kSlow;
    case Rule::kCopiesNotHidden:
      return sentences::kNotHidden;
    default:
      return sentences::kSmall;
  }
}

std::string_view what_it_costs(Rule rule) {
  switch (rule) {
    case Rule::kRepeatedCopies:
      return sentences::kSentAgain;
    case Rule::kLowBandwidth:
      return sentences::kTookLong;
    case Rule::kCopiesNotHidden:
      return sentences::kNoKernelRan;
    default:
      return sentences::kHeldThread;
  }
}

std::string_view what_is_at_stake(Rule rule) {
  switch (rule) {
    case Rule::kRepeatedCopies:
      return sentences::kSavesCopies;
    case Rule::kPingPong:
      return sentences::kBothWays;
    case Rule::kSynchronousCopies:
      return sentences::kIdleNotShown;
    case Rule::kLowBandwidth:
    case Rule::kCopiesNotHidden:
      return sentences::kAtStake;
    default:
      return sentences::kCallsTook;
  }
}

// Advice on which of the two copies of a round trip can go. It depends on the state of the GPU's
// memory between them; empty if that differs or is not known.
std::string_view fix_for_round_trips(const rows::Hotspot& row) {
  const std::uint64_t trips = row.returned_count;
  if (row.returned_to_new_memory == trips) return sentences::kKeepParked;
  const bool stayed = row.returned_to_same_memory == trips && trips != 0;
  return stayed ? sentences::kRemoveCopyBack : std::string_view();
}

// The largest share that the remedy could save, of the time between the first and the last copy.
double own_share(const rows::Hotspot& row) {
  const auto own_ns = static_cast<double>(row.own_time_ns.value_or(0));
  const auto loop_ns = static_cast<double>(row.loop_ns.value_or(0));
  return own_ns >= loop_ns ? 1 : own_ns / loop_ns;
}

// The number of the process's steps, those included that the report leaves out.
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

// True if copies cost little, so that they are only information.
// - Repeated copies are a warning at any share: a user who records hashes asked for it.
// - Reading a result once a step is normal for most programs.
bool costs_little(const rows::Hotspot& row, const RuleInput& input) {
  if (row.rule == Rule::kRepeatedCopies) return false;
  if (own_share(row) < input.thresholds[Threshold::kTransferShare]) return true;
  return row.rule == Rule::kSynchronousCopies &&
         row.count <= count_steps(input.report, row.process);
}

void add_copies(const rows::Hotspot& row, rows::Evidence& evidence) {
  add_evidence(row, {"direction", "api", "count", "bytes", "mean_bytes", "time_lost_ns"}, evidence);
  if (row.own_time_ns) add_evidence(row, {"own_time_ns"}, evidence);
  if (row.loop_ns) add_evidence(row, {"loop_ns"}, evidence);
  add_evidence(row, {"source_memory", "destination_memory"}, evidence);
  if (row.rule == Rule::kPingPong) {
    add_evidence(
        row,
        {"returned_count", "returned_bytes", "returned_host_ns", "down_at", "returned_up_ns",
         "returned_away_ns", "returned_to_same_memory", "returned_to_new_memory"},
        evidence);
  }
  if (row.rule == Rule::kRepeatedCopies) {
    add_evidence(row, {"repeated_count", "repeated_bytes"}, evidence);
  }
  if (row.gpu_time_ns) add_evidence(row, {"gpu_time_ns"}, evidence);
  if (row.bandwidth_bytes_per_s) add_evidence(row, {"bandwidth_bytes_per_s"}, evidence);
  if (row.link_share) add_evidence(row, {"link_share"}, evidence);
  if (row.overlapped_ns) add_evidence(row, {"overlapped_ns"}, evidence);
}

// Sets the values that the texts on the hotspot use.
Sentence sentence_of(const rows::Finding& finding, const rows::Hotspot& row) {
  const std::uint64_t trips = std::max<std::uint64_t>(row.returned_count, 1);
  const bool is_pageable = row.source_memory == MemoryClass::kPageable ||
                           row.destination_memory == MemoryClass::kPageable;
  return sentence_on(finding)
      .with(row)
      .set("copies", row.rule == Rule::kPingPong ? row.returned_count : row.count)
      .set("again", row.repeated_count.value_or(0))
      .set("again_bytes", row.repeated_bytes.value_or(0))
      .set("gpu_ns", row.gpu_time_ns.value_or(0))
      .set("link_share", row.link_share.value_or(0))
      .set("up_ns", row.returned_up_ns.value_or(0))
      .set("away_ns", row.returned_away_ns.value_or(0) / trips)
      .set("pageable", is_pageable ? sentences::kHostIsPageable : "")
      .set("share", at_most_text(own_share(row)));
}

}  // namespace

void find_transfer_faults(const RuleInput& input, Findings& findings) {
  for (const rows::Hotspot& row : input.report.transfers.hotspots) {
    rows::Finding finding = finding_at(row.rule, row);
    finding.bytes = row.bytes;
    finding.saves = {std::nullopt, row.own_time_ns, rows::SavesBasis::kInferred};
    add_copies(row, finding.evidence);
    const Sentence sentence = sentence_of(finding, row);
    finding.title = sentence(sentences::kCopies) + sentence(what_is_wrong(row.rule));
    finding.detail = sentence(sentences::kMoved) + sentence(what_it_costs(row.rule));
    if (row.rule == Rule::kPingPong) finding.fix = sentence(fix_for_round_trips(row));
    if (finding.fix.empty()) finding.fix = row.advice;
    finding.fix += sentence(what_is_at_stake(row.rule));
    if (costs_little(row, input)) finding.severity = Severity::kInfo;
    if (row.own_time_ns && row.loop_ns) finding.fix += sentence(sentences::kShareOfLoop);
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
