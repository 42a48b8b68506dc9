// SPDX-License-Identifier: Apache-2.0
#include "analyzer/join/join.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "analyzer/base/losses.hpp"
#include "analyzer/base/parallel.hpp"
#include "analyzer/join/lists.hpp"
#include "analyzer/join/places.hpp"
#include "analyzer/join/shared_memory.hpp"
#include "analyzer/report/frame_table.hpp"
#include "analyzer/report/redaction.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/rows/walk.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Limits of largest_blocks[]: the rows that a job shares out among its accounts (memory of one
// level, process and device), and the least and the most rows of one account.
constexpr std::size_t kMostLargest = 8192;
constexpr std::size_t kLeastLargest = 8;
constexpr std::size_t kMostOfAccount = 512;

// The facts about the processes that are taken into the job, in the order of processes.
std::vector<rows::PartialProcess> facts_of(const JobPlaces& places) {
  std::vector<rows::PartialProcess> facts;
  for (const TakenProcess& taken : places.processes) facts.push_back(*taken.process);
  return facts;
}

// Joins one list of rows that every partial report has, in the order of the job's processes.
template <class Row>
std::vector<Row> join_list(std::vector<rows::Partial>& partials,
                           std::vector<Row> rows::Partial::*list) {
  std::vector<Row> joined;
  for (rows::Partial& partial : partials) append_list(std::move(partial.*list), joined);
  order_list(joined);
  return joined;
}

void join_unreadable(const std::vector<rows::Partial>& partials, rows::Coverage& coverage) {
  std::map<std::filesystem::path, std::string> reasons;
  for (const rows::Partial& partial : partials) {
    for (const rows::UnreadableTrace& trace : partial.unreadable_traces) {
      reasons.try_emplace(std::string(trace.file), trace.reason);
    }
  }
  for (const auto& [path, reason] : reasons) {
    coverage.unreadable_traces.push_back({path.filename().string(), reason});
  }
}

// Joins the timelines that have this number of points in the partial reports.
std::vector<rows::Timeline> join_timelines(std::vector<rows::Partial>& partials,
                                           std::size_t points) {
  std::vector<rows::Timeline> timeline;
  for (rows::Partial& partial : partials) {
    for (rows::TimelinesOfPoints& of_points : partial.timelines) {
      if (of_points.points == points) append_list(std::move(of_points.timeline), timeline);
    }
  }
  order_list(timeline);
  return timeline;
}

// For each account, takes the blocks with the most bytes times lifetime, which come first, and then
// those live at the peak that are not among them.
std::vector<rows::LargestBlock> join_largest(std::vector<rows::Partial>& partials) {
  std::vector<rows::LargestOfAccount> accounts =
      join_list(partials, &rows::Partial::largest_blocks);
  const std::size_t most = most_largest_blocks(accounts.size());
  std::vector<rows::LargestBlock> blocks;
  for (rows::LargestOfAccount& account : accounts) {
    const std::uint64_t lasting = std::min<std::uint64_t>(account.most_lasting, most);
    for (std::uint64_t i = 0; i < lasting; ++i) blocks.push_back(std::move(account.blocks[i]));
    account.at_peak.resize(std::min(account.at_peak.size(), most));
    for (const std::uint64_t index : account.at_peak) {
      if (index >= lasting) blocks.push_back(std::move(account.blocks[index]));
    }
  }
  return blocks;
}

// The segments of one process: among those that ran out of memory, if there are any, the one that
// reserved the most bytes.
std::vector<rows::Segment> join_segments(std::vector<rows::Partial>& partials) {
  std::vector<rows::TellingSegments> all;
  for (rows::Partial& partial : partials) {
    if (partial.segments) all.push_back(*std::move(partial.segments));
  }
  order_list(all);
  const auto tells = [](const rows::TellingSegments& one) {
    return std::pair(one.ran_out_of_memory, one.reserved_peak_bytes);
  };
  // max_element() returns the first of equal processes.
  const auto most = std::ranges::max_element(all, {}, tells);
  return most == all.end() ? std::vector<rows::Segment>() : std::move(most->segments);
}

rows::OptionalNumber count_unjoined(const std::vector<rows::Process>& processes) {
  rows::OptionalNumber count;
  for (const rows::Process& process : processes) {
    if (process.cupti.join) count = count.value_or(0) + process.cupti.join->unjoined;
  }
  return count;
}

void finish_leaks(rows::Report& report) {
  sum_up(report.leaks);
  const bool all_exited =
      !report.traces.empty() && std::ranges::all_of(report.traces, [](const rows::Trace& trace) {
        return trace.end == rows::TraceEnd::kExit;
      });
  report.leaks.state = all_exited ? rows::LeakState::kChecked : rows::LeakState::kNotApplicable;
}

std::vector<rows::Loss> join_losses(const std::vector<rows::Partial>& partials,
                                    const std::vector<rows::PartialProcess>& processes,
                                    std::size_t unreadable) {
  std::map<std::string, std::uint64_t> counts;
  for (const rows::PartialProcess& process : processes) {
    for (const auto& [name, count] : process.losses) counts[name] += count;
  }
  Losses sums;
  for (std::size_t i = 0; i < kLosses.size(); ++i) {
    const auto found = counts.find(std::string(kLosses[i].name));
    if (found != counts.end()) sums.add(static_cast<Loss>(i), found->second);
  }
  std::set<rows::UnnamedModule> modules;
  for (const rows::Partial& partial : partials) {
    modules.insert(partial.unnamed_modules.begin(), partial.unnamed_modules.end());
  }
  for (const rows::UnnamedModule& module : modules) {
    sums.add(module.is_replaced_by_other ? Loss::symbols_of_another_build : Loss::symbols_missing,
             1);
  }
  sums.add(Loss::unreadable_traces, unreadable);
  return loss_rows(sums);
}

// Fills frames[] and stacks[] with the stacks that the report names.
void join_stacks(const std::vector<rows::Partial>& partials, rows::Report& report) {
  std::unordered_set<std::string> named;
  // The report is visited as const, because only then is the evidence of findings visited too.
  rows::walk(std::as_const(report), [&]<class Value>(std::string_view, const Value& value) {
    if constexpr (std::same_as<Value, rows::StackId>) named.insert(value);
  });
  struct Found {
    FrameNumbers* numbers;
    const rows::Stack* stack;
  };
  FrameTable frames;
  std::vector<FrameNumbers> numbers;
  numbers.reserve(partials.size());
  std::vector<Found> found;
  for (const rows::Partial& partial : partials) {
    numbers.emplace_back(partial.report.frames, frames);
    for (const rows::Stack& stack : partial.report.stacks) {
      if (named.contains(stack.id)) found.push_back({&numbers.back(), &stack});
    }
  }
  std::ranges::stable_sort(found, {}, [](const Found& one) {
    return number_of(rows::ProcessId(one.stack->id.substr(0, one.stack->id.find(':'))));
  });
  report.stacks.reserve(found.size());
  for (const Found& one : found) {
    report.stacks.push_back(*one.stack);
    one.numbers->renumber(report.stacks.back());
  }
  report.frames_by = "index";
  report.frames = frames.take();
}

// Fills the sections that have one or more rows for each process.
void join_lists(std::vector<rows::Partial>& partials, rows::Report& report,
                rows::Observations& seen) {
  for (rows::Partial& partial : partials) {
    append_lists(std::move(partial.report), report);
    append_lists(std::move(partial.observations), seen);
  }
  const auto order = [](auto& list) { order_list(list); };
  for_each_process_list(report, order);
  for_each_process_list(seen, order);
  // These observations serve rules that compare processes.
  if (report.processes.size() < 2) {
    seen.contexts.clear();
    seen.allocating.clear();
  }
}

// Fills the sections that span processes, from the sections of single processes.
void compare_processes(const JoinOptions& options, rows::Report& report) {
  sort_sections(report);
  finish_leaks(report);
  forecast(report.devices, report.leaks.growth);
  report.transfers.unjoined = count_unjoined(report.processes);
  report.card_peaks_reason = card_peaks_reason(report);
  report.groups_given = report_groups_given(report, options.groups);
  report.rank_groups = report_rank_groups(report);
  report.ranks = report_ranks(report);
  report.window = options.window;
  if (!options.blocks_at_ns || !report.blocks) return;
  for (rows::BlockAt& block : *report.blocks) {
    if (block.at == rows::BlocksAt::kTime) block.time_ns = *options.blocks_at_ns;
  }
}

}  // namespace

rows::Report join(std::vector<rows::Partial> partials, const JoinOptions& options) {
  const JobPlaces places = find_places(partials, options.repeated_traces_count_once);
  const std::vector<rows::PartialProcess> processes = facts_of(places);
  in_parallel(partials.size(),
              [&](std::size_t i) { apply_job_ids(places.of_partial[i], partials[i]); });
  rows::Report report;
  rows::Observations seen;
  report.tool = {"gpumemtrace", GPUMEMTRACE_VERSION};
  if (options.redact) report.is_redacted = true;
  report.devices = places.devices;
  fill_cards(join_list(partials, &rows::Partial::card_histories), report);
  join_unreadable(partials, report.coverage);
  const std::size_t unreadable = report.coverage.unreadable_traces.size();
  report.timeline = join_timelines(
      partials,
      options.timeline_points.value_or(default_timeline_points(processes.size() + unreadable)));
  report.largest_blocks = join_largest(partials);
  report.segments = join_segments(partials);
  join_lists(partials, report, seen);
  pair_shared_memory(join_list(partials, &rows::Partial::exported_memory),
                     join_list(partials, &rows::Partial::opened_memory), report);
  std::vector<std::filesystem::path> paths;
  for (const rows::PartialProcess& process : processes) {
    paths.emplace_back(process.path);
    report.coverage.wrapped = std::max(report.coverage.wrapped, process.wrapped);
  }
  guess_ranks(paths, report.processes);
  compare_processes(options, report);
  Redaction redaction;
  if (options.redact) redaction.redact(report, seen);
  report.findings = find_all({report, seen, options.thresholds});
  join_stacks(partials, report);
  if (options.redact) redaction.redact(report.frames, report.stacks);
  report.losses = join_losses(partials, processes, unreadable);
  // Several threads free the rows that are left over, because freeing takes a twentieth of the
  // time.
  in_parallel(partials.size(), [&](std::size_t i) { partials[i] = {}; });
  return report;
}

// The timelines of a job of many traces have fewer points each: nobody can read so many in detail.
std::size_t default_timeline_points(std::size_t traces) {
  constexpr std::size_t kManyTraces = 16;
  std::size_t many = kManyTraces;
  for (const std::size_t points : kTimelinePoints) {
    if (traces <= many) return points;
    many *= 2;
  }
  return kTimelinePoints.back();
}

std::size_t most_largest_blocks(std::size_t accounts) {
  return std::clamp(kMostLargest / std::max<std::size_t>(accounts, 1), kLeastLargest,
                    kMostOfAccount);
}

}  // namespace gpumemtrace::analyzer
