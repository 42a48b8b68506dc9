// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analyze.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <utility>

#include "analyzer/base/parallel.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/join/join.hpp"
#include "analyzer/join/partial_options.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/rows/walk.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/text/amounts.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The size of the job, by which the partial report of each process leaves out rows that the job's
// report will not have.
struct JobSize {
  std::size_t traces = 0;
  std::size_t processes = 0;
  // number of accounts (memory of one level, process and device) in the partial reports made so far
  std::atomic<std::size_t> accounts = 0;
};

// Makes timeline[] with the number of points that the options or the size of the job determine. If
// neither is known, makes it once for each number of points that a merge may need.
std::vector<rows::TimelinesOfPoints> report_timelines(const ReportContext& context,
                                                      const Options& options,
                                                      const JobSize* job_size) {
  std::vector<rows::TimelinesOfPoints> list;
  if (job_size != nullptr || options.timeline_points) {
    const std::size_t traces = job_size == nullptr ? 1 : job_size->traces;
    const std::size_t points = options.timeline_points.value_or(default_timeline_points(traces));
    list.push_back({points, report_timeline(context)});
    return list;
  }
  for (const std::size_t points : kTimelinePoints) {
    list.push_back({points, report_timeline(context, points)});
  }
  return list;
}

// The largest blocks of each account. The more accounts a job has, the fewer rows its report shows
// of each, so the number of accounts counted so far in all processes limits the rows.
std::vector<rows::LargestOfAccount> report_largest(const ReportContext& context,
                                                   JobSize* job_size) {
  std::size_t accounts = 1;
  if (job_size != nullptr) accounts = job_size->accounts += count_accounts(context);
  return report_largest_blocks(context, most_largest_blocks(accounts));
}

std::vector<rows::UnnamedModule> report_unnamed_modules(const Symbolizer& symbolizer) {
  std::vector<rows::UnnamedModule> list;
  for (const auto& [module, is_replaced] : symbolizer.unnamed_modules()) {
    list.push_back({module.path, hexadecimal(module.build_id), is_replaced});
  }
  return list;
}

// Fills the sections whose rows are each about one process alone.
rows::Report report_processes_alone(const ReportContext& context, const Options& options) {
  const Thresholds& thresholds = options.thresholds;
  rows::Report report;
  report.traces = report_traces(context);
  report.processes = report_processes(context);
  report.usage = report_usage(context);
  report.peak = report_peak(context);
  report.modules = report_modules(context);
  report.tensors = report_tensors(context);
  report.composition = report_composition(context);
  report.driver_memory = report_driver_memory(context);
  report.pools = report_pools(context);
  report.communicators = report_communicators(context);
  report.shared_memory = report_unpaired_memory(context);
  report.owners = report_owners(context);
  report.leaks = report_leaks(context);
  report.fragmentation = report_fragmentation(context);
  report.transfers = report_transfers(context);
  report.managed = report_managed(context);
  report.oom = report_oom(context);
  report.steps = report_steps(context);
  report.ranges = report_ranges(context);
  report.ranges_by_name = report_ranges_by_name(context);
  report.marks = report_marks(context);
  report.sizes = report_sizes(context);
  report.lifetimes = report_lifetimes(context);
  report.temporary = report_temporary(context);
  const BlocksWanted wanted{options.blocks_at_peak, options.blocks_at_ns};
  if (wanted.at_peak || wanted.at_ns) report.blocks = report_blocks(context, wanted);
  if (options.logged_allocations) report.allocations = report_allocations(context);
  if (options.what_if) report.what_if = report_what_if(context, *options.what_if);
  report.leaks.growth = report_growth(context, report.steps, thresholds);
  report.transfers.hotspots = report_hotspots(context, thresholds);
  report.costs = report_costs(context);
  report.coverage = report_coverage(context);
  return report;
}

std::set<std::string> named_stacks(const rows::Partial& partial) {
  std::set<std::string> ids;
  rows::walk(partial, [&]<class Value>(std::string_view, const Value& value) {
    if constexpr (std::is_same_v<Value, rows::StackId>) ids.insert(value);
  });
  return ids;
}

// `job_size`: the size of the job if join() follows with the partial reports of all its processes;
// nullptr if the job may have other processes.
rows::Partial make_partial(const Job& job, Symbolizer& symbolizer, const CodeOwners& owners,
                           const Options& options, JobSize* job_size) {
  const ReportContext context(job, symbolizer, owners);
  rows::Partial partial;
  partial.tool = {"gpumemtrace", GPUMEMTRACE_VERSION};
  partial.options =
      options_row(options.thresholds, options.timeline_points, options.owner_files, options.groups);
  partial.processes = report_partial_processes(context);
  partial.report = report_processes_alone(context, options);
  partial.report.devices = report_devices(context);
  partial.card_histories = report_card_histories(context);
  partial.segments = report_segments(context);
  partial.exported_memory = report_exported_memory(context);
  partial.opened_memory = report_opened_memory(context);
  partial.timelines = report_timelines(context, options, job_size);
  partial.largest_blocks = report_largest(context, job_size);
  const bool may_be_distributed = job_size == nullptr || job_size->processes > 1;
  partial.observations = observe(context, options.thresholds, may_be_distributed);
  partial.observations.replayed =
      report_replays(context, allocators_to_replay(partial.report, options.thresholds));
  StackSections stacks = report_stacks(context, named_stacks(partial));
  partial.report.frames = std::move(stacks.frames);
  partial.report.stacks = std::move(stacks.stacks);
  return partial;
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

// Throws if a checkpoint replaced the records of the time `at_ns`: a checkpoint has sums, not
// single allocations.
void require_detail_at(std::uint64_t at_ns, const Process& process) {
  const std::uint64_t cut = process.model().statistics().checkpoint_time;
  if (cut == 0 || process.time_ns(cut) <= at_ns) return;
  throw InputError("What was live at " + duration_text(at_ns) +
                   " is not known: of the time before " + duration_text(process.time_ns(cut)) +
                   " " + process.file().path().string() +
                   " has sums alone, because its length was bounded.");
}

JoinOptions join_options(const Options& options) {
  JoinOptions join{options.thresholds, options.redact, options.timeline_points};
  if (options.window) join.window = {options.window->from_ns, options.window->to_ns};
  join.blocks_at_ns = options.blocks_at_ns;
  join.groups = options.groups;
  return join;
}

// Opens the traces of a job and makes partial reports of them.
class Analysis {
 public:
  // Throws InputError if a file of rules for owners is wrong: before the traces are read.
  explicit Analysis(const Options& options) : options_(options), symbolizer_(options.symbols) {
    for (const std::filesystem::path& file : options.owner_files) owners_.read(file);
  }

  // Makes a partial report of each process, several at once. A process is freed as soon as its
  // report is made.
  [[nodiscard]] std::vector<rows::Partial> analyze_each(
      const std::vector<std::filesystem::path>& inputs) {
    const std::vector<std::filesystem::path> traces = find(inputs);
    rethrow_as_input_error([&] { open_job(traces, view_of(options_, traces.size()), job_); });
    JobSize job_size{traces.size(), job_.processes.size()};
    std::vector<rows::Partial> partials(job_.processes.size());
    JobProgress progress(job_, options_.progress);
    in_parallel(partials.size(), [&](std::size_t i) {
      Job alone;
      alone.processes.push_back(std::move(job_.processes[i]));
      read_into_model(*alone.processes.front(), progress);
      partials[i] = make_partial(alone, symbolizer_, owners_, options_, &job_size);
    });
    progress.end();
    add_facts_of_all(partials.front());
    return partials;
  }

  // One partial report of all processes together. If all traces are unreadable, it only lists them.
  [[nodiscard]] rows::Partial analyze_together(const std::vector<std::filesystem::path>& inputs) {
    const std::vector<std::filesystem::path> traces = find(inputs);
    try {
      open_job(traces, view_of(options_, 1), job_);
    } catch (const trace::TraceError&) {
    }
    JobProgress progress(job_, options_.progress);
    in_parallel(job_.processes.size(),
                [&](std::size_t i) { read_into_model(*job_.processes[i], progress); });
    progress.end();
    rows::Partial partial = make_partial(job_, symbolizer_, owners_, options_, nullptr);
    add_facts_of_all(partial);
    // Several threads free the models, because freeing them takes a twentieth of the analysis's
    // time.
    in_parallel(job_.processes.size(), [&](std::size_t i) { job_.processes[i].reset(); });
    return partial;
  }

 private:
  static void rethrow_as_input_error(const auto& work) {
    try {
      work();
    } catch (const trace::TraceError& error) {
      throw InputError(error.what());
    }
  }

  [[nodiscard]] static std::vector<std::filesystem::path> find(
      const std::vector<std::filesystem::path>& inputs) {
    if (inputs.empty()) throw InputError("No trace was given.");
    std::vector<std::filesystem::path> traces;
    rethrow_as_input_error([&] { traces = trace::find_traces(inputs); });
    return traces;
  }

  // Reads all records of the process into its model, and completes the model.
  void read_into_model(Process& process, JobProgress& progress) const {
    rethrow_as_input_error([&] { take_records(process, progress); });
    process.finish();
    if (options_.blocks_at_ns) require_detail_at(*options_.blocks_at_ns, process);
    // With the origin 0, rows have times of the machine's monotonic clock; join() converts them to
    // times of the job.
    process.set_origin(0);
  }

  void add_facts_of_all(rows::Partial& partial) const {
    partial.unreadable_traces = report_unreadable(job_);
    partial.unnamed_modules = report_unnamed_modules(symbolizer_);
  }

  const Options& options_;
  Symbolizer symbolizer_;
  CodeOwners owners_;
  Job job_;
};

}  // namespace

rows::Report analyze(const std::vector<std::filesystem::path>& inputs, const Options& options) {
  return join(Analysis(options).analyze_each(inputs), join_options(options));
}

rows::Partial analyze_partially(const std::vector<std::filesystem::path>& inputs,
                                const Options& options) {
  return Analysis(options).analyze_together(inputs);
}

Options options_of(const rows::Partial& partial) {
  const JoinOptions join = join_options(partial.options);
  Options options;
  options.thresholds = join.thresholds;
  options.timeline_points = join.timeline_points;
  options.groups = join.groups;
  return options;
}

rows::Report merge(std::vector<rows::Partial> partials, bool redact) {
  if (partials.empty()) throw InputError("No partial report was given.");
  require_alike(partials);
  std::ranges::for_each(partials, require_sound);
  JoinOptions options = join_options(partials.front().options);
  options.redact = redact;
  options.repeated_traces_count_once = partials.size() > 1;
  try {
    return join(std::move(partials), options);
  } catch (const std::out_of_range&) {
    throw InputError(
        "A partial report is damaged: it names a process, device or stack that it lacks.");
  }
}

}  // namespace gpumemtrace::analyzer
