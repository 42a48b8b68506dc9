// SPDX-License-Identifier: Apache-2.0
// Gradients that live longer than the optimizer needs them.
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

Finding finding_of(const RuleInput& input, const ReportProcess& process, const Account& account,
                   const TallyByIdentity& places, std::uint64_t bytes) {
  const auto* largest = &*places.begin();
  std::uint64_t count = 0;
  for (const auto& place : places) {
    if (place.second.bytes > largest->second.bytes) largest = &place;
    count += place.second.count;
  }
  const Identity& identity = largest->first;
  Finding finding = finding_at(Rule::kGradientsInForward,
                               {{"process", process.id},
                                {"device", input.context.device_id(process, account.device)},
                                {"level", name_of(account.level)},
                                {"owner", owner_json(identity)},
                                {"site", site_json(identity)},
                                {"stack", stack_json(identity)}});
  finding.bytes = bytes;
  finding.time_ns = process.time_ns(account.peak.time());
  finding.evidence = {{"count", count},
                      {"peak_bytes", account.peak.bytes()},
                      {"phase", name_of(account.clock_at_peak.phase)}};
  finding.title = size_text(bytes) + " of gradients from the step before, made at " +
                  place_text(finding.site) + ", were alive at the peak";
  finding.detail = count_text(count, "gradient", "gradients") + ", " + size_text(bytes) +
                   " of the " + size_text(account.peak.bytes()) +
                   " at the peak, had already been used by the optimizer and were kept through the "
                   "next forward pass.";
  finding.fix =
      "Call optimizer.zero_grad() before the forward pass, with set_to_none=True (the default). Up "
      "to " +
      size_text(bytes) + " of the peak would be saved (arithmetic).";
  return finding;
}

}  // namespace

void find_gradients(const RuleInput& input, Findings& findings) {
  for (const ReportProcess& process : input.context.processes()) {
    for (const Account& account : process.model().accounts().accounts()) {
      const TallyByIdentity places =
          input.context.tally(process, process.model().gradients_left_at_peak(account));
      std::uint64_t bytes = 0;
      for (const auto& [identity, tally] : places) bytes += tally.bytes;
      if (bytes == 0 || bytes < input.thresholds.bytes(Threshold::kGradientBytes)) continue;
      findings.push_back(finding_of(input, process, account, places, bytes));
    }
  }
}

}  // namespace gpumemtrace::analyzer
