// SPDX-License-Identifier: Apache-2.0
// Finds managed memory that the driver migrates to and fro.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {

void find_managed_thrash(const RuleInput& input, Findings& findings) {
  for (const rows::Managed& row : input.report.managed) {
    const double round_trips = row.round_trips.value_or(0);
    if (round_trips < input.thresholds[Threshold::kManagedRoundTrips]) continue;
    rows::Finding finding = finding_at(Rule::kManagedThrash, row);
    finding.level = Level::kManaged;
    finding.bytes = row.migrated_bytes;
    finding.saves = {std::nullopt, row.migration_time_ns, rows::SavesBasis::kArithmetic};
    add_evidence(
        row,
        {"allocations", "bytes", "to_device_bytes", "to_host_bytes", "migrations",
         "migration_time_ns", "cpu_faults", "gpu_faults", "round_trips", "round_trip_bytes"},
        finding.evidence);
    fill_texts(sentences::kManagedThrash, sentence_on(finding).with(row), finding);
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
