// SPDX-License-Identifier: Apache-2.0
// The sections of the report: each a pure function of the job and of the rows that it names, so
// that the order of calls does not matter.
#pragma once

#include <filesystem>
#include <limits>
#include <set>
#include <span>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/replay/question.hpp"
#include "analyzer/report/report_context.hpp"
#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

// report_traces.cpp
[[nodiscard]] std::vector<rows::Trace> report_traces(const ReportContext& context);
[[nodiscard]] std::vector<rows::Process> report_processes(const ReportContext& context);
// Without physical_peak.
[[nodiscard]] std::vector<rows::Device> report_devices(const ReportContext& context);
// Snapshots do not have their process: what their files' names say stands for its rank. `traces`
// are the files of the processes.
void guess_ranks(std::span<const std::filesystem::path> traces,
                 std::vector<rows::Process>& processes);
// The lists of processes.
[[nodiscard]] rows::Coverage report_coverage(const ReportContext& context);
// By their paths.
[[nodiscard]] std::vector<rows::UnreadableTrace> report_unreadable(const Job& job);
[[nodiscard]] std::vector<rows::PartialProcess> report_partial_processes(
    const ReportContext& context);

// report_traces.cpp: frames[] and stacks[] of these ids
struct StackSections {
  std::vector<rows::Frame> frames;
  std::vector<rows::Stack> stacks;
};
[[nodiscard]] StackSections report_stacks(const ReportContext& context,
                                          const std::set<std::string>& ids);

// report_usage.cpp
[[nodiscard]] std::vector<rows::Usage> report_usage(const ReportContext& context);
[[nodiscard]] std::vector<rows::Peak> report_peak(const ReportContext& context);
// The same without holders.
[[nodiscard]] std::vector<rows::Peak> report_peak_bytes(const ReportContext& context);
[[nodiscard]] std::vector<rows::Owner> report_owners(const ReportContext& context);

// report_tensors.cpp: modules[], the framework's peaks by layer
[[nodiscard]] std::vector<rows::Module> report_modules(const ReportContext& context);

// report_tensors.cpp: tensors[], named by the program at the framework's peaks
[[nodiscard]] std::vector<rows::Tensor> report_tensors(const ReportContext& context);

// report_composition.cpp
[[nodiscard]] std::vector<rows::Composition> report_composition(const ReportContext& context);
[[nodiscard]] rows::Composition compose_snapshot(const ReportContext& context,
                                                 const ReportProcess& process,
                                                 const OomSnapshot& snapshot);

// report_card_histories.cpp: what each process did to each card; physical_peak of devices[], and
// card_peaks[], from that
[[nodiscard]] std::vector<rows::CardHistory> report_card_histories(const ReportContext& context);
void fill_cards(const std::vector<rows::CardHistory>& histories, rows::Report& report);
[[nodiscard]] rows::OptionalText card_peaks_reason(const rows::Report& sections);

// report_driver_memory.cpp
[[nodiscard]] std::vector<rows::DriverMemory> report_driver_memory(const ReportContext& context);

// report_pools.cpp: pools of the framework's allocator and of the driver
[[nodiscard]] std::vector<rows::PoolRow> report_pools(const ReportContext& context);

// report_ranks.cpp: allocations of NCCL, by communicator
[[nodiscard]] std::vector<rows::Communicator> report_communicators(const ReportContext& context);

// report_shared_memory.cpp: memory of others that only they could name, or nobody can
[[nodiscard]] std::vector<rows::SharedMemory> report_unpaired_memory(const ReportContext& context);
[[nodiscard]] std::vector<rows::OpenedBySite> report_opened_memory(const ReportContext& context);
[[nodiscard]] std::vector<rows::ExportedBySite> report_exported_memory(
    const ReportContext& context);

// report_leaks.cpp; without growth, state and sums
[[nodiscard]] rows::Leaks report_leaks(const ReportContext& context);
// The bytes of the class `lost`.
[[nodiscard]] std::map<HolderKey, std::uint64_t> lost_bytes_by_holder(const ReportContext& context,
                                                                      const ReportProcess& process);

// report_costs.cpp
[[nodiscard]] std::vector<rows::Cost> report_costs(const ReportContext& context);

// report_costs.cpp: the allocations that the models logged
[[nodiscard]] std::vector<rows::AllocationHistory> report_allocations(const ReportContext& context);

// report_driver_memory.cpp
[[nodiscard]] std::vector<rows::OpenHandles> report_open_handles(const ReportContext& context);

// report_growth.cpp: leaks.growth[], by the process's steps if it has some; without a forecast
[[nodiscard]] std::vector<rows::Growth> report_growth(const ReportContext& context,
                                                      const std::vector<rows::Step>& steps,
                                                      const Thresholds& thresholds);
// Fills in when devices are full.
void forecast(const std::vector<rows::Device>& devices, std::vector<rows::Growth>& growth);

// report_hotspots.cpp: transfers.hotspots[]
[[nodiscard]] std::vector<rows::Hotspot> report_hotspots(const ReportContext& context,
                                                         const Thresholds& thresholds);

// report_what_if.cpp: no section, but replays of other settings for findings
[[nodiscard]] std::vector<rows::ReplayedAllocator> report_replays(
    const ReportContext& context, const std::vector<rows::AllocatorToReplay>& allocators);

// report_fragmentation.cpp
[[nodiscard]] std::vector<rows::Fragmentation> report_fragmentation(const ReportContext& context);
// The owners of the blocks that keep most free memory from being used, `most` rows.
[[nodiscard]] std::vector<rows::PinningBlocks> pinning_blocks(
    const ReportContext& context, const ReportProcess& process,
    const std::map<std::uint32_t, Pin>& pins, std::size_t most);

// report_fragmentation.cpp: of the framework of one process
[[nodiscard]] std::optional<rows::TellingSegments> report_segments(const ReportContext& context);

// report_transfers.cpp; without hotspots and unjoined
[[nodiscard]] rows::Transfers report_transfers(const ReportContext& context);

// report_activity.cpp: CUPTI's reports
[[nodiscard]] rows::Cupti cupti_row(const ReportProcess& process);
[[nodiscard]] std::vector<rows::Stream> report_streams(const ReportContext& context);

// report_activity.cpp: migrations and faults of managed memory
[[nodiscard]] std::vector<rows::Managed> report_managed(const ReportContext& context);
// CUPTI's record of pools, for coverage.
[[nodiscard]] std::vector<rows::PoolActivity> report_pool_activity(const ReportContext& context);

// report_timeline.cpp
[[nodiscard]] std::vector<rows::Step> report_steps(const ReportContext& context);
[[nodiscard]] std::vector<rows::Range> report_ranges(const ReportContext& context);
[[nodiscard]] std::vector<rows::RangesOfName> report_ranges_by_name(const ReportContext& context);
[[nodiscard]] std::vector<rows::Mark> report_marks(const ReportContext& context);

// report_timeline.cpp; at most so many points a row, and no more than the models have
[[nodiscard]] std::vector<rows::Timeline> report_timeline(
    const ReportContext& context, std::size_t most = std::numeric_limits<std::size_t>::max());

// report_lives.cpp
[[nodiscard]] std::vector<rows::SizeRange> report_sizes(const ReportContext& context);
[[nodiscard]] std::vector<rows::LifetimeRange> report_lifetimes(const ReportContext& context);
[[nodiscard]] std::vector<rows::Temporary> report_temporary(const ReportContext& context);
// The number of accounts that share largest_blocks[], and at most so many rows of each.
[[nodiscard]] std::size_t count_accounts(const ReportContext& context);
[[nodiscard]] std::vector<rows::LargestOfAccount> report_largest_blocks(
    const ReportContext& context, std::size_t most);
struct BlocksWanted {
  bool at_peak = false;                // of each account, at its own
  std::optional<std::uint64_t> at_ns;  // that JobView had
};
[[nodiscard]] std::vector<rows::BlockAt> report_blocks(const ReportContext& context,
                                                       const BlocksWanted& wanted);

// report_usage.cpp: holders of live memory now, one row for each site and use
[[nodiscard]] std::vector<rows::BlockAt> report_live_memory(const ReportContext& context);

// report_ranks.cpp: of processes, devices, usage, peak, modules, leaks and groups_given
[[nodiscard]] std::vector<rows::Rank> report_ranks(const rows::Report& sections);

// rank_groups.cpp: of processes and the text of --groups, which may be empty. Throws InputError if
// that text does not fit the job.
[[nodiscard]] rows::OptionalText report_groups_given(const rows::Report& sections,
                                                     const std::string& option);
// rank_groups.cpp: of processes, communicators, peak, modules and groups_given
[[nodiscard]] std::vector<rows::RankGroup> report_rank_groups(const rows::Report& sections);
// rank_groups.cpp: numbers of the groups of ranks that should hold as much as each other, by
// process; of the same sections
[[nodiscard]] std::map<std::string, std::uint64_t> peer_groups(const rows::Report& sections);

// report_what_if.cpp: reads the traces again
[[nodiscard]] std::vector<rows::WhatIf> report_what_if(const ReportContext& context,
                                                       const replay::Question& question);

// report_fragmentation.cpp
[[nodiscard]] std::vector<rows::Oom> report_oom(const ReportContext& context);

// observations.cpp: input of rules beside the report, with that of jobs of several processes
[[nodiscard]] rows::Observations observe(const ReportContext& context, const Thresholds& thresholds,
                                         bool is_distributed);

// section_order.cpp: the rows above are in the order of processes
void sort_sections(rows::Report& report);

}  // namespace gpumemtrace::analyzer
