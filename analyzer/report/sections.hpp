// SPDX-License-Identifier: Apache-2.0
// The functions that make the sections of the report. Each is a pure function of the job and of the
// rows that it gets, so the order of calls does not matter.
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

// Defined in report_traces.cpp.
[[nodiscard]] std::vector<rows::Trace> report_traces(const ReportContext& context);
[[nodiscard]] std::vector<rows::Process> report_processes(const ReportContext& context);
// The rows of devices, without physical_peak.
[[nodiscard]] std::vector<rows::Device> report_devices(const ReportContext& context);
// Sets the ranks of processes whose traces are snapshots of PyTorch: a snapshot does not have its
// process's rank, so the numbers in its file's name stand for it. `traces` are the processes'
// files.
void guess_ranks(std::span<const std::filesystem::path> traces,
                 std::vector<rows::Process>& processes);
// Fills in only those lists of coverage whose rows belong to single processes.
[[nodiscard]] rows::Coverage report_coverage(const ReportContext& context);
// The traces that could not be read, by their paths.
[[nodiscard]] std::vector<rows::UnreadableTrace> report_unreadable(const Job& job);
[[nodiscard]] std::vector<rows::PartialProcess> report_partial_processes(
    const ReportContext& context);

// The rows of frames[] and stacks[] for the stacks of these ids; defined in report_traces.cpp.
struct StackSections {
  std::vector<rows::Frame> frames;
  std::vector<rows::Stack> stacks;
};
[[nodiscard]] StackSections report_stacks(const ReportContext& context,
                                          const std::set<std::string>& ids);

// Defined in report_usage.cpp.
[[nodiscard]] std::vector<rows::Usage> report_usage(const ReportContext& context);
[[nodiscard]] std::vector<rows::Peak> report_peak(const ReportContext& context);
// The rows of peak[] without the holders of the memory.
[[nodiscard]] std::vector<rows::Peak> report_peak_bytes(const ReportContext& context);
[[nodiscard]] std::vector<rows::Owner> report_owners(const ReportContext& context);

// modules[], the framework's peaks by layer of the model; defined in report_tensors.cpp.
[[nodiscard]] std::vector<rows::Module> report_modules(const ReportContext& context);

// tensors[], which the program named, at the framework's peaks; defined in report_tensors.cpp.
[[nodiscard]] std::vector<rows::Tensor> report_tensors(const ReportContext& context);

// Defined in report_composition.cpp.
[[nodiscard]] std::vector<rows::Composition> report_composition(const ReportContext& context);
[[nodiscard]] rows::Composition compose_snapshot(const ReportContext& context,
                                                 const ReportProcess& process,
                                                 const OomSnapshot& snapshot);

// The history of each process on each card, and from it physical_peak of devices[], and
// card_peaks[]; defined in report_card_histories.cpp.
[[nodiscard]] std::vector<rows::CardHistory> report_card_histories(const ReportContext& context);
void fill_cards(const std::vector<rows::CardHistory>& histories, rows::Report& report);
[[nodiscard]] rows::OptionalText card_peaks_reason(const rows::Report& sections);

// Defined in report_driver_memory.cpp.
[[nodiscard]] std::vector<rows::DriverMemory> report_driver_memory(const ReportContext& context);

// Pools of the framework's allocator and of the driver; defined in report_pools.cpp.
[[nodiscard]] std::vector<rows::PoolRow> report_pools(const ReportContext& context);

// Allocations of NCCL, by communicator; defined in report_ranks.cpp.
[[nodiscard]] std::vector<rows::Communicator> report_communicators(const ReportContext& context);

// Memory that processes share: first the opened memory whose exporter no trace can tell, then all
// other opened memory and all exported memory, which analyzer/join/ pairs; defined in
// report_shared_memory.cpp.
[[nodiscard]] std::vector<rows::SharedMemory> report_unpaired_memory(const ReportContext& context);
[[nodiscard]] std::vector<rows::OpenedBySite> report_opened_memory(const ReportContext& context);
[[nodiscard]] std::vector<rows::ExportedBySite> report_exported_memory(
    const ReportContext& context);

// The leaks without growth, state and sums; defined in report_leaks.cpp.
[[nodiscard]] rows::Leaks report_leaks(const ReportContext& context);
// The leaked bytes of the class `lost`, by holder.
[[nodiscard]] std::map<HolderKey, std::uint64_t> lost_bytes_by_holder(const ReportContext& context,
                                                                      const ReportProcess& process);

// Defined in report_costs.cpp.
[[nodiscard]] std::vector<rows::Cost> report_costs(const ReportContext& context);

// The allocations that the models of the processes logged; defined in report_costs.cpp.
[[nodiscard]] std::vector<rows::AllocationHistory> report_allocations(const ReportContext& context);

// Defined in report_driver_memory.cpp.
[[nodiscard]] std::vector<rows::OpenHandles> report_open_handles(const ReportContext& context);

// leaks.growth[] without a forecast, by the process's steps if it has some; defined in
// report_growth.cpp.
[[nodiscard]] std::vector<rows::Growth> report_growth(const ReportContext& context,
                                                      const std::vector<rows::Step>& steps,
                                                      const Thresholds& thresholds);
// Fills in the times at which growing memory will have filled the devices.
void forecast(const std::vector<rows::Device>& devices, std::vector<rows::Growth>& growth);

// transfers.hotspots[]; defined in report_hotspots.cpp.
[[nodiscard]] std::vector<rows::Hotspot> report_hotspots(const ReportContext& context,
                                                         const Thresholds& thresholds);

// Replays of the allocator under other settings, for findings: no section of the report; defined in
// report_what_if.cpp.
[[nodiscard]] std::vector<rows::ReplayedAllocator> report_replays(
    const ReportContext& context, const std::vector<rows::AllocatorToReplay>& allocators);

// Defined in report_fragmentation.cpp.
[[nodiscard]] std::vector<rows::Fragmentation> report_fragmentation(const ReportContext& context);
// The owners of the blocks that keep most free memory from being used, at most `most` rows.
[[nodiscard]] std::vector<rows::PinningBlocks> pinning_blocks(
    const ReportContext& context, const ReportProcess& process,
    const std::map<std::uint32_t, Pin>& pins, std::size_t most);

// The segments of the framework in one process; defined in report_fragmentation.cpp.
[[nodiscard]] std::optional<rows::TellingSegments> report_segments(const ReportContext& context);

// The copies, without the members `hotspots` and `unjoined`; defined in report_transfers.cpp.
[[nodiscard]] rows::Transfers report_transfers(const ReportContext& context);

// CUPTI's own state and streams; defined in report_activity.cpp.
[[nodiscard]] rows::Cupti cupti_row(const ReportProcess& process);
[[nodiscard]] std::vector<rows::Stream> report_streams(const ReportContext& context);

// Migrations and faults of managed memory; defined in report_activity.cpp.
[[nodiscard]] std::vector<rows::Managed> report_managed(const ReportContext& context);
// CUPTI's record of the driver's pools, for the section `coverage`.
[[nodiscard]] std::vector<rows::PoolActivity> report_pool_activity(const ReportContext& context);

// Defined in report_timeline.cpp.
[[nodiscard]] std::vector<rows::Step> report_steps(const ReportContext& context);
[[nodiscard]] std::vector<rows::Range> report_ranges(const ReportContext& context);
[[nodiscard]] std::vector<rows::RangesOfName> report_ranges_by_name(const ReportContext& context);
[[nodiscard]] std::vector<rows::Mark> report_marks(const ReportContext& context);

// timeline[] with at most `most` points in a row, fewer if the process's model has fewer; defined
// in report_timeline.cpp.
[[nodiscard]] std::vector<rows::Timeline> report_timeline(
    const ReportContext& context, std::size_t most = std::numeric_limits<std::size_t>::max());

// Defined in report_lives.cpp.
[[nodiscard]] std::vector<rows::SizeRange> report_sizes(const ReportContext& context);
[[nodiscard]] std::vector<rows::LifetimeRange> report_lifetimes(const ReportContext& context);
[[nodiscard]] std::vector<rows::Temporary> report_temporary(const ReportContext& context);
// The number of accounts (one level on one device of a process) that have rows in largest_blocks[],
// and these rows, at most `most` of each list for each account.
[[nodiscard]] std::size_t count_accounts(const ReportContext& context);
[[nodiscard]] std::vector<rows::LargestOfAccount> report_largest_blocks(
    const ReportContext& context, std::size_t most);
struct BlocksWanted {
  bool at_peak = false;  // the blocks of each account at its own peak
  // blocks at this time, which JobView::at_ns must have asked for
  std::optional<std::uint64_t> at_ns;
};
[[nodiscard]] std::vector<rows::BlockAt> report_blocks(const ReportContext& context,
                                                       const BlocksWanted& wanted);

// The holders of live memory now, one row for each site and use; defined in report_usage.cpp.
[[nodiscard]] std::vector<rows::BlockAt> report_live_memory(const ReportContext& context);

// The ranks, from the sections processes, devices, usage, peak, modules, leaks and groups_given;
// defined in report_ranks.cpp.
[[nodiscard]] std::vector<rows::Rank> report_ranks(const rows::Report& sections);

// The sizes of groups as text: `option`, which is the text of --groups, or, if it is empty, the
// sizes in the processes' command lines. Throws InputError if `option` does not fit the job.
// Defined in rank_groups.cpp.
[[nodiscard]] rows::OptionalText report_groups_given(const rows::Report& sections,
                                                     const std::string& option);
// The groups of ranks, from the sections processes, communicators, peak, modules and groups_given;
// defined in rank_groups.cpp.
[[nodiscard]] std::vector<rows::RankGroup> report_rank_groups(const rows::Report& sections);
// For each process of a rank, the number of its group: ranks of one group should hold equally much
// memory. From the same sections as report_rank_groups(); defined in rank_groups.cpp.
[[nodiscard]] std::map<std::string, std::uint64_t> peer_groups(const rows::Report& sections);

// The rows of what_if[], for which the traces are read again; defined in report_what_if.cpp.
[[nodiscard]] std::vector<rows::WhatIf> report_what_if(const ReportContext& context,
                                                       const replay::Question& question);

// Defined in report_fragmentation.cpp.
[[nodiscard]] std::vector<rows::Oom> report_oom(const ReportContext& context);

// The input of rules that is not in the report's sections; with `is_distributed`, also the input of
// rules for jobs of several processes. Defined in observations.cpp.
[[nodiscard]] rows::Observations observe(const ReportContext& context, const Thresholds& thresholds,
                                         bool is_distributed);

// Sorts sections whose rows are not in the order of processes; defined in section_order.cpp.
void sort_sections(rows::Report& report);

}  // namespace gpumemtrace::analyzer
