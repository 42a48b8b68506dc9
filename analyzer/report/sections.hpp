// SPDX-License-Identifier: Apache-2.0
// The sections of the report, each a pure function of the job: one key of the JSON, one function.
#pragma once

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/report/report_context.hpp"

namespace gpumemtrace::analyzer {

// report_traces.cpp
[[nodiscard]] Json report_traces(const ReportContext& context);
[[nodiscard]] Json report_processes(const ReportContext& context);
[[nodiscard]] Json report_devices(const ReportContext& context, const Job& job);
[[nodiscard]] Json report_coverage(const ReportContext& context);
[[nodiscard]] Json report_losses(const ReportContext& context);

// report_stacks.cpp: of those that the other sections name
[[nodiscard]] Json report_stacks(const ReportContext& context, const Json& report);

// report_usage.cpp
[[nodiscard]] Json report_usage(const ReportContext& context);
[[nodiscard]] Json report_peak(const ReportContext& context);
[[nodiscard]] Json report_owners(const ReportContext& context);

// report_composition.cpp
[[nodiscard]] Json report_composition(const ReportContext& context);
[[nodiscard]] Json compose_snapshot(const ReportContext& context, const ReportProcess& process,
                                    const OomSnapshot& snapshot);

// report_leaks.cpp
[[nodiscard]] Json report_leaks(const ReportContext& context);
// What the class `lost` counts.
[[nodiscard]] std::map<HolderKey, std::uint64_t> lost_bytes_by_holder(const ReportContext& context,
                                                                      const ReportProcess& process);

// report_costs.cpp
[[nodiscard]] Json report_costs(const ReportContext& context);

// report_handles.cpp
[[nodiscard]] Json report_open_handles(const ReportContext& context);

// report_growth.cpp: leaks.growth[], by the job's steps where the report has some
[[nodiscard]] Json report_growth(const ReportContext& context, const Json& report,
                                 const Thresholds& thresholds);

// report_hotspots.cpp: transfers.hotspots[]
[[nodiscard]] Json report_hotspots(const ReportContext& context, const Thresholds& thresholds);

// report_fragmentation.cpp
[[nodiscard]] Json report_fragmentation(const ReportContext& context);

// report_transfers.cpp
[[nodiscard]] Json report_transfers(const ReportContext& context);

// report_activity.cpp: what CUPTI reported
// processes[].cupti
[[nodiscard]] Json cupti_json(const ReportProcess& process, Redaction& redaction);
// transfers.streams[]
[[nodiscard]] Json report_streams(const ReportContext& context);
// transfers.unjoined; null where CUPTI was off
[[nodiscard]] Json count_unjoined(const ReportContext& context);

// report_managed.cpp: migrations and faults of managed memory
[[nodiscard]] Json report_managed(const ReportContext& context);

// report_memory_check.cpp: CUPTI's own record of allocations; parts of coverage
[[nodiscard]] Json report_memory2(const ReportContext& context);
[[nodiscard]] Json report_memory2_disagreements(const ReportContext& context);
[[nodiscard]] Json report_pool_activity(const ReportContext& context);

// report_steps.cpp
[[nodiscard]] Json report_steps(const ReportContext& context);
[[nodiscard]] Json report_ranges(const ReportContext& context);
// The number of the step that the moment lies in; null where none is known.
[[nodiscard]] Json step_json(const ReportProcess& process, std::uint64_t model_time);

// report_oom.cpp
[[nodiscard]] Json report_oom(const ReportContext& context);

}  // namespace gpumemtrace::analyzer
