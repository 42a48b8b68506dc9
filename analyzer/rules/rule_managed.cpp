// SPDX-License-Identifier: Apache-2.0
// Managed memory that the driver moves to and fro.
#include <cstdio>
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {

void find_managed_thrash(const RuleInput& input, Findings& findings) {
  for (const rows::Managed& row : input.report.managed) {
    const double round_trips = row.round_trips.value_or(0);
    if (round_trips < input.thresholds[Threshold::kManagedRoundTrips]) continue;
    rows::Finding finding = finding_at(Rule::kManagedThrash, row);
    finding.level = Level::kManaged;
    finding.bytes = row.migrated_bytes;
    finding.saves = {std::nullopt, row.migration_time_ns, rows::SavesBasis::kArithmetic};
    finding.evidence.add("allocations", row.allocations);
    finding.evidence.add("bytes", row.bytes);
    finding.evidence.add("to_device_bytes", row.to_device_bytes);
    finding.evidence.add("to_host_bytes", row.to_host_bytes);
    finding.evidence.add("migrations", row.migrations);
    finding.evidence.add("migration_time_ns", row.migration_time_ns);
    finding.evidence.add("cpu_faults", row.cpu_faults);
    finding.evidence.add("gpu_faults", row.gpu_faults);
    finding.evidence.add("round_trips", round_trips);
    finding.evidence.add("round_trip_bytes", row.round_trip_bytes);
    char times[32];
    std::snprintf(times, sizeof times, "%.1f", round_trips);
    const std::string place = site_text(row.origin.site);
    const std::string migration_time = duration_text(row.migration_time_ns);
    finding.title =
        "Managed memory of " + place + " went to the device and back " + times + " times";
    finding.detail = "Of the managed memory that " + place + " allocated, one allocation of " +
                     size_text(row.round_trip_bytes) + " went up and came down " + times +
                     " times. In all " + size_text(row.to_device_bytes) +
                     " went to the device and " + size_text(row.to_host_bytes) +
                     " came back, which took " + migration_time + '.';
    finding.fix =
        "Touch it from one side only while it is in use: keep what the host reads in memory of its "
        "own, or move it ahead of use with cudaMemPrefetchAsync, or let the other side map it "
        "(cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy). It would save " +
        migration_time + " of migration at most (exact time).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
