// SPDX-License-Identifier: Apache-2.0
#include "analyzer/job/job.hpp"

#include <algorithm>

#include "analyzer/base/machine.hpp"
#include "analyzer/base/parallel.hpp"
#include "analyzer/job/job_clock.hpp"
#include "analyzer/model/activity/activity.hpp"
#include "analyzer/snapshot/open_trace.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Writers with more records than this are threads of the program, which make no clock records, so
// their records are not read for the preview.
constexpr std::uint64_t kMaxPreviewRecords = 50'000;

auto realtime_error(const trace::Clock& clock) {
  return std::tuple(clock.realtime_state, clock.realtime_max_error_ns, clock.realtime_error_ns);
}

}  // namespace

std::uint64_t record_count(const trace::WriterStream& stream) {
  std::uint64_t sum = 0;
  for (const trace::ChunkPiece& piece : stream.pieces) sum += piece.records;
  return sum;
}

bool PreviewReader::read(const trace::TraceFile& file) {
  return std::all_of(file.writers().begin(), file.writers().end(),
                     [&](const trace::WriterStream& writer) { return read(file, writer); });
}

bool PreviewReader::read(const trace::TraceFile& file, const trace::WriterStream& writer) {
  Stream& stream = streams_[writer.writer];
  const bool is_new = !stream.has_begun;
  trace::WriterCursor cursor = is_new ? trace::WriterCursor(file, writer)
                                      : trace::WriterCursor(file, writer, stream.position);
  if (!cursor.found()) return false;
  if (is_new) {
    // The first record of the recorder's own writer is a clock record.
    const trace::RecordHeader* first = cursor.next();
    if (first == nullptr) return true;
    stream.has_begun = true;
    stream.is_recorders = writer.writer == 0 || writer.writer == trace::kCheckpointWriter ||
                          first->kind == trace::RecordKind::kClock;
    take(*first, stream);
    stream.position = cursor.position();
  }
  if (!stream.is_recorders && record_count(writer) > kMaxPreviewRecords) return true;
  cursor.look_for({trace::RecordKind::kWaitingStack, trace::RecordKind::kDevice,
                   trace::RecordKind::kActivityClock, trace::RecordKind::kActivityState,
                   trace::RecordKind::kText, trace::RecordKind::kSource,
                   trace::RecordKind::kClock});
  while (const trace::RecordHeader* record = cursor.next()) take(*record, stream);
  stream.position = cursor.position();
  return true;
}

void PreviewReader::take(const trace::RecordHeader& record, const Stream& stream) {
  switch (record.kind) {
    case trace::RecordKind::kWaitingStack:
      // Samples that a thread of the program took stand in its stream before the block that needs
      // them. Only the samples of the recorder's thread must be known before all other records.
      if (stream.is_recorders) preview_.waits.push_back(trace::as<trace::WaitingStack>(record));
      return;
    case trace::RecordKind::kDevice:
      return preview_.devices.push_back(trace::as<trace::Device>(record));
    case trace::RecordKind::kActivityClock:
      return preview_.activity_clocks.push_back(trace::as<trace::ActivityClock>(record));
    case trace::RecordKind::kActivityState: {
      const trace::ActivityMode mode = trace::as<trace::ActivityState>(record).mode;
      if (is_collecting(mode)) {
        preview_.widest_activity = std::max(preview_.widest_activity, mode);
      }
      return;
    }
    case trace::RecordKind::kText:
      return dictionary_.add(record);
    case trace::RecordKind::kSource:
      preview_.source = {trace::as<trace::Source>(record), std::string(trace::tail_of(record))};
      return;
    case trace::RecordKind::kClock: {
      const auto& clock = trace::as<trace::Clock>(record);
      points_.push_back(
          {record.time, clock.monotonic_ns, clock.realtime_ns, clock.uncertainty_ticks});
      preview_.background_cpu_ns = std::max(preview_.background_cpu_ns, clock.background_cpu_ns);
      if (realtime_error(preview_.realtime) < realtime_error(clock)) preview_.realtime = clock;
      return;
    }
    default:
      return;
  }
}

Preview PreviewReader::preview(const trace::TraceFile& file) const {
  Preview preview = preview_;
  preview.clock = Clock(points_, file.header().ticks_per_second);
  preview.host = dictionary_.text(trace::TextKey::kHost);
  preview.boot_id = dictionary_.text(trace::TextKey::kBootId);
  return preview;
}

namespace {

// The number of records between two reports of progress.
constexpr std::uint64_t kSliceRecords = 1'000'000;

// Sets for each process the monotonic time at which the job began.
void join_clocks(std::vector<std::unique_ptr<Process>>& processes) {
  std::vector<ClockStart> starts;
  for (const auto& process : processes) {
    const trace::TraceFile& file = process->file();
    starts.push_back(start_of(boot_of(process->preview().boot_id, file.path().string()),
                              process->clock(), file.header().start_realtime_ns));
  }
  const std::vector<std::int64_t> origins = job_origins(starts);
  for (std::size_t i = 0; i < processes.size(); ++i) processes[i]->set_origin(origins[i]);
}

}  // namespace

OpenTrace::OpenTrace(const std::filesystem::path& path) : file(snapshot::open_trace(path)) {
  // read() cannot fail the first time: there is no earlier position that the file could lack
  (void)preview_reader.read(*file);
  preview = preview_reader.preview(*file);
}

Process::Process(std::uint32_t index, OpenTrace trace, const JobView& view)
    : file_(std::move(trace.file)),
      preview_reader_(std::move(trace.preview_reader)),
      preview_(std::move(trace.preview)),
      merge_(std::in_place, *file_, limit_of(view.until)),
      model_(index, *merge_, preview_.waits,
             ActivityClocks(preview_.activity_clocks, preview_.clock), preview_.widest_activity,
             view.detail, preview_.clock.ns_per_tick()),
      is_replay_(view.until && view.until->is_replay) {
  model_.add_devices(preview_.devices);
}

bool Process::go_on(const ReadLimit& until) {
  // the process had ended at the last refresh, which took all its records
  if (!file_->still_running() && !until.is_replay) return true;
  // if the tick of `until` is not known, the last refresh took all records without a limit, and new
  // records may belong before them
  if (!knows_tick_of(until)) return false;
  auto file = snapshot::open_trace(file_->path());
  if (file->identity() != file_->identity() || !(file->header().id == file_->header().id)) {
    return false;
  }
  if (!preview_reader_.read(*file)) return false;
  const Preview preview = preview_reader_.preview(*file);
  if (!preview_.serves_for(preview)) return false;
  const MergeProgress progress = merge_->progress();
  preview_ = preview;
  file_ = std::move(file);
  merge_.emplace(*file_, limit_of(until), progress);
  model_.go_on();
  return merge_->continues(progress);
}

// True if the time `until` can be converted to ticks of this process. For a replay, one calibration
// is enough. Else the process must run on this machine, and its clock must know its rate: the first
// two calibrations follow each other closely, and if the machine was busy between them, their rate
// puts the present before all calls.
bool Process::knows_tick_of(const ReadLimit& until) const {
  if (until.is_replay) return !clock().points().empty();
  return knows_rate(clock()) && preview_.boot_id == boot_id_of_this_machine();
}

// The point in the order of records up to which records are taken; no limit if the process has
// ended or the tick of `until` is not known.
MergeLimit Process::limit_of(const std::optional<ReadLimit>& until) const {
  if (!until || !knows_tick_of(*until)) return {};
  if (!file_->still_running() && !until->is_replay) return {};
  return {Extent::kReturned, trace::last_key_of_ticks(clock().to_ticks(until->monotonic_ns))};
}

bool Process::has_ended() const {
  return done() && !is_replay_ && !file_->still_running() &&
         model_.statistics().stopped_because.empty();
}

// The last tick whose time, in whole nanoseconds of the job, is at most `job_ns`.
std::uint64_t Process::last_tick_of(std::uint64_t job_ns) const {
  constexpr std::uint64_t kLastNs = ~std::uint64_t{0} >> 2;  // the last time that a clock can show
  if (job_ns >= kLastNs) return ~std::uint64_t{0};
  const std::uint64_t next = clock().to_ticks(job_ns + 1);
  return next != 0 && clock().to_job_ns(next) > job_ns ? next - 1 : next;
}

void Process::set_view(const JobView& view) {
  if (view.window) {
    const auto [from_ns, to_ns] = *view.window;
    model_.set_window({from_ns == 0 ? 0 : last_tick_of(from_ns - 1) + 1, last_tick_of(to_ns)});
  }
  if (view.at_ns) model_.request_snapshot(last_tick_of(*view.at_ns));
}

std::uint64_t Process::shortest_period() const {
  constexpr std::uint64_t kTicks = 1'000'000'000;
  constexpr std::uint64_t kShortestPeriodNs = 100'000;
  const std::uint64_t duration_ns = std::max(clock().duration_ns(kTicks), std::uint64_t{1});
  return kShortestPeriodNs * kTicks / duration_ns;
}

void open_job(const std::vector<std::filesystem::path>& traces, const JobView& view, Job& job) {
  std::vector<std::optional<OpenTrace>> open(traces.size());
  std::vector<std::string> reasons(traces.size());
  in_parallel(traces.size(), [&](std::size_t i) {
    try {
      open[i].emplace(traces[i]);
    } catch (const trace::TraceError& error) {
      reasons[i] = error.what();
    }
  });
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (!open[i]) job.unreadable.push_back({traces[i], reasons[i]});
  }
  std::erase_if(open, [](const auto& trace) { return !trace; });
  if (open.empty() && !job.unreadable.empty()) {
    throw trace::TraceError(job.unreadable.front().reason);
  }
  job.processes.resize(open.size());
  in_parallel(open.size(), [&](std::size_t i) {
    job.processes[i] =
        std::make_unique<Process>(static_cast<std::uint32_t>(i), *std::move(open[i]), view);
  });
  join_clocks(job.processes);
  // set_view() converts the view's times by the origins that join_clocks() has set.
  for (const auto& process : job.processes) process->set_view(view);
}

JobProgress::JobProgress(const Job& job, const std::function<void(double)>& report)
    : report_(report) {
  for (const auto& process : job.processes) {
    for (const trace::WriterStream& stream : process->file().writers()) {
      total_ += record_count(stream);
    }
  }
}

void JobProgress::add(std::uint64_t records) {
  const std::uint64_t done = done_ += records;
  if (!report_ || std::this_thread::get_id() != thread_ || done - reported_ < kSliceRecords) return;
  reported_ = done;
  report_(std::min(1.0, static_cast<double>(done) / static_cast<double>(total_)));
}

void JobProgress::end() const {
  if (report_) report_(1.0);
}

void take_records(Process& process, JobProgress& progress) {
  while (!process.done()) {
    const std::uint64_t before = process.records_done();
    process.run(kSliceRecords);
    progress.add(process.records_done() - before);
  }
}

const Job& FollowedJob::look(const ReadLimit& until) {
  const std::vector<std::filesystem::path> traces = trace::find_traces(inputs_);
  if (!go_on(traces, until)) {
    ++full_reads_;
    job_ = std::make_unique<Job>();
    traces_ = traces;
    JobView view;
    view.until = until;
    open_job(traces, view, *job_);
  }
  const std::function<void(double)> no_report;
  JobProgress progress(*job_, no_report);
  in_parallel(job_->processes.size(), [&](std::size_t i) {
    take_records(*job_->processes[i], progress);
    job_->processes[i]->pause();
  });
  return *job_;
}

bool FollowedJob::go_on(const std::vector<std::filesystem::path>& traces, const ReadLimit& until) {
  if (job_ == nullptr || traces != traces_ || !job_->unreadable.empty()) return false;
  try {
    for (const auto& process : job_->processes) {
      if (!process->go_on(until)) return false;
    }
  } catch (const trace::TraceError&) {
    return false;  // look() then reads the job from its start, and reports the error
  }
  join_clocks(job_->processes);
  return true;
}

}  // namespace gpumemtrace::analyzer
