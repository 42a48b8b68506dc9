// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/ranking.hpp"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "analyzer/rules/finding_text.hpp"

namespace gpumemtrace::analyzer {
namespace {

// True for a small leak whose allocating code is not known, such as a flag or a counter: it comes
// last among the findings of its severity.
bool is_trifle(const rows::Finding& finding) {
  return finding.rule == Rule::kLeak && finding.confidence != FindingConfidence::kExact &&
         !finding.origin.owner && finding.bytes.value_or(0) < kLeastLeakOfNote;
}

bool is_failure_or_leak(Rule rule) {
  switch (rule) {
    case Rule::kOutOfMemory:
    case Rule::kOutOfMemoryRecovered:
    case Rule::kLeak:
    case Rule::kInvalidFree:
    case Rule::kLeakUntilContextEnd:
      return true;
    default:
      return false;
  }
}

// The job's peak on the device; if the finding names no device, on the fullest one.
std::uint64_t peak_bytes(const rows::Report& report, const rows::OptionalText& device) {
  std::uint64_t most = 0;
  for (const rows::CardPeak& row : report.card_peaks) {
    if (row.of != rows::PeakOf::kJob || (device && row.device != device)) continue;
    most = std::max(most, row.bytes);
  }
  return most;
}

std::uint64_t recorded_ns(const rows::Report& report, const rows::OptionalText& process) {
  std::uint64_t most = 0;
  for (const rows::Trace& row : report.traces) {
    if (process && row.process != *process) continue;
    most = std::max(most, row.duration_ns.value_or(0));
  }
  return most;
}

double share_of(const rows::OptionalNumber& part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part.value_or(0)) / static_cast<double>(whole);
}

double share_saved(const rows::Report& report, const rows::Finding& finding) {
  return std::max(share_of(finding.saves.bytes, peak_bytes(report, finding.device)),
                  share_of(finding.saves.time_ns, recorded_ns(report, finding.process)));
}

// The key by which findings are sorted, ascending: most urgent first. Savings count only for
// findings that are neither failures nor leaks.
auto place_of(const rows::Report& report, const rows::Finding& finding) {
  const bool is_first = is_failure_or_leak(finding.rule);
  return std::make_tuple(finding.severity, is_trifle(finding), !is_first,
                         is_first ? finding.rule : Rule::kOutOfMemory,
                         is_first ? 0.0 : -share_saved(report, finding), finding.rule,
                         ~finding.bytes.value_or(0), finding.fingerprint);
}

}  // namespace

void sort_by_savings(const rows::Report& report, std::vector<rows::Finding>& findings) {
  using Place = decltype(place_of(report, findings.front()));
  std::vector<std::pair<Place, rows::Finding>> placed;
  placed.reserve(findings.size());
  for (rows::Finding& finding : findings) {
    Place place = place_of(report, finding);
    placed.emplace_back(std::move(place), std::move(finding));
  }
  std::ranges::stable_sort(placed, {}, &std::pair<Place, rows::Finding>::first);
  std::ranges::transform(placed, findings.begin(), [](auto& row) { return std::move(row.second); });
}

}  // namespace gpumemtrace::analyzer
