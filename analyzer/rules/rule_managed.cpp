// SPDX-License-Identifier: Apache-2.0
// Managed memory that the driver moves to and fro.
#include <cstdio>
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {

void find_managed_thrash(const RuleInput& input, Findings& findings) {
  for (const Json& row : input.report.at("managed")) {
    const auto round_trips = row.at("round_trips").get<double>();
    if (round_trips < input.thresholds[Threshold::kManagedRoundTrips]) continue;
    Finding finding = finding_at(Rule::kManagedThrash, row);
    finding.level = name_of(Level::kManaged);
    finding.bytes = row.at("migrated_bytes");
    for (const char* key :
         {"allocations", "bytes", "to_device_bytes", "to_host_bytes", "migrations",
          "migration_time_ns", "cpu_faults", "gpu_faults", "round_trips", "round_trip_bytes"}) {
      finding.evidence[key] = row.at(key);
    }
    char times[32];
    std::snprintf(times, sizeof times, "%.1f", round_trips);
    const std::string place = place_text(row.at("site"));
    finding.title =
        "Managed memory of " + place + " went to the device and back " + times + " times";
    finding.detail = "Of the managed memory that " + place + " allocated, one allocation of " +
                     size_text(row.at("round_trip_bytes")) + " went up and came down " + times +
                     " times. In all " + size_text(row.at("to_device_bytes")) +
                     " went to the device and " + size_text(row.at("to_host_bytes")) +
                     " came back, which took " + duration_text(row.at("migration_time_ns")) + '.';
    finding.fix =
        "Touch it from one side only while it is in use: keep what the host reads in memory of its "
        "own, or move it ahead of use with cudaMemPrefetchAsync, or let the other side map it "
        "(cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy). It would save " +
        duration_text(row.at("migration_time_ns")) + " of migration at most (exact time).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
