// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analyze.hpp"

#include <utility>

#include "analyzer/base/parallel.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/report/redaction.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/text/amounts.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Report build_report(const Job& job, Symbolizer& symbolizer, const CodeOwners& owners,
                          const Options& options) {
  const ReportContext context(job, symbolizer, owners);
  const Thresholds& thresholds = options.thresholds;
  rows::Report report;
  report.tool = {"gpumemtrace", GPUMEMTRACE_VERSION};
  if (options.redact) report.is_redacted = true;
  report.traces = report_traces(context);
  report.processes = report_processes(context);
  const std::vector<CardResults> cards = report_cards(context);
  report.devices = report_devices(context, cards);
  report.usage = report_usage(context);
  report.peak = report_peak(context);
  report.modules = report_modules(context);
  report.tensors = report_tensors(context);
  report.composition = report_composition(context);
  report.card_peaks = report_card_peaks(cards);
  report.card_peaks_reason = card_peaks_reason(context);
  report.driver_memory = report_driver_memory(context);
  report.pools = report_pools(context);
  report.communicators = report_communicators(context);
  report.owners = report_owners(context);
  report.leaks = report_leaks(context);
  report.fragmentation = report_fragmentation(context);
  report.segments = report_segments(context);
  report.transfers = report_transfers(context);
  report.managed = report_managed(context);
  report.oom = report_oom(context);
  report.steps = report_steps(context);
  report.ranges = report_ranges(context);
  report.ranges_by_name = report_ranges_by_name(context);
  report.marks = report_marks(context);
  report.timeline = report_timeline(context);
  report.sizes = report_sizes(context);
  report.lifetimes = report_lifetimes(context);
  report.temporary = report_temporary(context);
  report.largest_blocks = report_largest_blocks(context);
  if (options.window) report.window = {options.window->from_ns, options.window->to_ns};
  const BlocksWanted wanted{options.blocks_at_peak, options.blocks_at_ns};
  if (wanted.at_peak || wanted.at_ns) report.blocks = report_blocks(context, wanted);
  if (options.logged_allocations) report.allocations = report_allocations(context);
  if (options.what_if) report.what_if = report_what_if(context, *options.what_if);
  report.leaks.growth = report_growth(context, report.steps, report.devices, thresholds);
  report.groups_given = report_groups_given(report, options.groups);
  report.rank_groups = report_rank_groups(report);
  report.ranks = report_ranks(report);
  report.transfers.hotspots = report_hotspots(context, thresholds);
  report.costs = report_costs(context);
  report.coverage = report_coverage(context, job);
  rows::Observations seen = observe(context, thresholds);
  seen.replayed = report_replays(context, allocators_to_replay(report, thresholds));
  Redaction redaction;
  if (options.redact) redaction.redact(report, seen);
  report.findings = find_all({report, seen, thresholds});
  StackSections stacks = report_stacks(context, report);
  report.frames_by = "index";
  report.frames = std::move(stacks.frames);
  report.stacks = std::move(stacks.stacks);
  if (options.redact) redaction.redact(report.frames, report.stacks);
  report.losses = report_losses(context, symbolizer, job);
  return report;
}

// A reader cannot take in more timelines than this.
std::size_t default_timeline_points(std::size_t traces) {
  constexpr std::size_t kMost = 1024;
  constexpr std::size_t kFewest = 256;
  constexpr std::size_t kManyTraces = 16;
  std::size_t points = kMost;
  for (std::size_t many = kManyTraces; many < traces && points > kFewest; many *= 2) points /= 2;
  return points;
}

JobView view_of(const Options& options, std::size_t traces) {
  JobView view;
  view.detail = {options.timeline_points.value_or(default_timeline_points(traces)),
                 options.logged_allocations};
  if (const auto& window = options.window) {
    view.window = {window->from_ns, window->to_ns.value_or(JobWindow().to_ns)};
  }
  view.at_ns = options.blocks_at_ns;
  return view;
}

// Single allocations before a checkpoint are not known.
void require_detail_at(std::uint64_t at_ns, const Job& job) {
  for (const auto& process : job.processes) {
    const std::uint64_t cut = process->model().statistics().checkpoint_time;
    if (cut == 0 || process->time_ns(cut) <= at_ns) continue;
    throw InputError("What was live at " + duration_text(at_ns) +
                     " is not known: of the time before " + duration_text(process->time_ns(cut)) +
                     " " + process->file().path().string() +
                     " has sums alone, because its length was bounded.");
  }
}

}  // namespace

rows::Report analyze(const std::vector<std::filesystem::path>& inputs, const Options& options) {
  // Bad files of the user are better named now than after the traces were read.
  Symbolizer symbolizer(options.symbols);
  CodeOwners owners;
  for (const std::filesystem::path& file : options.owner_files) owners.read(file);
  Job job;
  if (inputs.empty()) throw InputError("No trace was given.");
  try {
    const std::vector<std::filesystem::path> traces = trace::find_traces(inputs);
    open_job(traces, view_of(options, traces.size()), job);
    run_job(job, options.progress);
    if (options.blocks_at_ns) require_detail_at(*options.blocks_at_ns, job);
  } catch (const trace::TraceError& error) {
    throw InputError(error.what());
  }
  rows::Report report = build_report(job, symbolizer, owners, options);
  // To free the models takes a twentieth of the time.
  in_parallel(job.processes.size(), [&](std::size_t i) { job.processes[i].reset(); });
  return report;
}

}  // namespace gpumemtrace::analyzer
