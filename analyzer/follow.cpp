// SPDX-License-Identifier: Apache-2.0
#include "analyzer/follow.hpp"

#include <time.h>

#include <utility>

#include "analyzer/base/parallel.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/report/process_losses.hpp"
#include "analyzer/report/redaction.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/symbols/symbolizer.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

struct Follower::State {
  State(std::vector<std::filesystem::path> inputs, const FollowOptions& options)
      : job(std::move(inputs)), symbolizer(options.symbols), redact(options.redact) {
    for (const std::filesystem::path& file : options.owner_files) owners.read(file);
  }

  FollowedJob job;
  Symbolizer symbolizer;
  CodeOwners owners;
  bool redact = false;
  std::vector<NamedSites> names;
  std::uint64_t named_in = 0;  // the value of FollowedJob::full_reads() for which `names` are valid
};

namespace {

// A thread records an event within this time after the event, unless the thread is held up.
constexpr std::uint64_t kSettlingNs = 1'000'000;

std::uint64_t monotonic_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Losses that are left out while the job runs: they count how CUPTI's records were joined with
// calls, which is known only when all records are there.
constexpr Loss kLossesKnownLate[] = {Loss::activity_unjoined, Loss::activity_inferred,
                                     Loss::copy_memory_disagreements};

std::vector<rows::Loss> losses_now(const Losses& losses) {
  std::vector<rows::Loss> list = loss_rows(losses);
  for (const Loss left_out : kLossesKnownLate) {
    const std::string_view name = kLosses[static_cast<std::size_t>(left_out)].name;
    std::erase_if(list, [&](const rows::Loss& row) { return row.name == name; });
  }
  return list;
}

JobNow job_now(const ReportContext& context, bool redact) {
  JobNow now;
  rows::Report& report = now.report;
  report.traces = report_traces(context);
  report.processes = report_processes(context);
  std::vector<std::filesystem::path> files;
  for (const ReportProcess& process : context.processes()) {
    files.push_back(process.process->file().path());
  }
  guess_ranks(files, report.processes);
  report.devices = report_devices(context);
  fill_cards(report_card_histories(context), report);
  report.usage = report_usage(context);
  report.peak = report_peak_bytes(context);
  report.card_peaks_reason = card_peaks_reason(report);
  report.timeline = report_timeline(context);
  report.steps = report_steps(context);
  report.leaks.growth = report_growth(context, report.steps, Thresholds());
  sort_sections(report);
  forecast(report.devices, report.leaks.growth);
  report.ranks = report_ranks(report);
  report.blocks = report_live_memory(context);
  for (const ReportProcess& process : context.processes()) {
    now.losses[process.id] = losses_now(process.losses);
    now.time_ns[process.id] = process.known_time_ns(process.model().statistics().last_time);
  }
  if (redact) {
    rows::Observations none;
    Redaction().redact(report, none);
  }
  return now;
}

}  // namespace

Follower::Follower(std::vector<std::filesystem::path> inputs, const FollowOptions& options)
    : state_(std::make_unique<State>(std::move(inputs), options)) {}

Follower::~Follower() = default;

std::uint64_t Follower::full_reads() const { return state_->job.full_reads(); }

JobNow Follower::look() { return look(monotonic_ns() - kSettlingNs, false); }

JobNow Follower::replay(std::uint64_t monotonic_ns) { return look(monotonic_ns, true); }

JobNow Follower::look(std::uint64_t monotonic_ns, bool is_replay) {
  const OneThread one_thread;
  try {
    const Job& job = state_->job.look({monotonic_ns, is_replay});
    // If the job was read from its start again, its models are new, and the kept names of call
    // sites do not fit them.
    if (state_->named_in != full_reads()) state_->names.clear();
    state_->named_in = full_reads();
    ReportContext context(job, state_->symbolizer, state_->owners, std::move(state_->names));
    JobNow now = job_now(context, state_->redact);
    state_->names = context.take_names();
    return now;
  } catch (const trace::TraceError& error) {
    throw InputError(error.what());
  }
}

}  // namespace gpumemtrace::analyzer
