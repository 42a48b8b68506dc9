// SPDX-License-Identifier: Apache-2.0
#include "analyzer/job/job.hpp"

#include <algorithm>
#include <limits>
#include <queue>

namespace gpumemtrace::analyzer {
namespace {

// Writers with more records than this are threads of the program, which make no clock records.
constexpr std::uint64_t kMaxPreviewRecords = 50'000;

// Between two reports of progress.
constexpr std::uint64_t kSliceRecords = 1'000'000;

// Sixty years; a header that says more is not to be believed.
constexpr std::uint64_t kMaxRealtimeNs = 2'000'000'000'000'000'000;

std::uint64_t record_count(const trace::WriterStream& stream) {
  std::uint64_t sum = 0;
  for (const trace::ChunkPiece& piece : stream.pieces) sum += piece.records;
  return sum;
}

class PreviewReader {
 public:
  void read(const trace::TraceFile& file) {
    for (const trace::WriterStream& stream : file.writers()) {
      trace::WriterCursor cursor(file, stream);
      const bool short_stream = record_count(stream) <= kMaxPreviewRecords;
      // The recorder's own writer begins with a clock record.
      const trace::RecordHeader* first = cursor.next();
      if (first == nullptr) continue;
      take(*first);
      const bool has_clocks = stream.writer == 0 || stream.writer == trace::kCheckpointWriter ||
                              first->kind == trace::RecordKind::kClock;
      if (!short_stream && !has_clocks) continue;
      cursor.look_for({trace::RecordKind::kWaitingStack, trace::RecordKind::kDevice,
                       trace::RecordKind::kActivityClock, trace::RecordKind::kActivityState,
                       trace::RecordKind::kText, trace::RecordKind::kClock});
      while (const trace::RecordHeader* record = cursor.next()) take(*record);
    }
  }
  [[nodiscard]] std::vector<ClockPoint> points() const { return points_; }
  [[nodiscard]] std::uint64_t background_cpu_ns() const { return background_cpu_ns_; }
  [[nodiscard]] const std::vector<trace::WaitingStack>& waits() const { return waits_; }
  [[nodiscard]] const std::vector<trace::Device>& devices() const { return devices_; }
  [[nodiscard]] const std::vector<trace::ActivityClock>& activity_clocks() const {
    return activity_clocks_;
  }
  [[nodiscard]] trace::ActivityMode widest_activity() const { return widest_activity_; }
  [[nodiscard]] const Dictionary& dictionary() const { return dictionary_; }

 private:
  void take(const trace::RecordHeader& record) {
    if (record.kind == trace::RecordKind::kWaitingStack) {
      waits_.push_back(trace::as<trace::WaitingStack>(record));
    }
    if (record.kind == trace::RecordKind::kDevice) {
      devices_.push_back(trace::as<trace::Device>(record));
    }
    if (record.kind == trace::RecordKind::kActivityClock) {
      activity_clocks_.push_back(trace::as<trace::ActivityClock>(record));
    }
    if (record.kind == trace::RecordKind::kActivityState) {
      const trace::ActivityMode mode = trace::as<trace::ActivityState>(record).mode;
      if (is_collecting(mode)) widest_activity_ = std::max(widest_activity_, mode);
    }
    if (record.kind == trace::RecordKind::kText) dictionary_.add(record);
    if (record.kind != trace::RecordKind::kClock) return;
    const auto& clock = trace::as<trace::Clock>(record);
    points_.push_back(
        {record.time, clock.monotonic_ns, clock.realtime_ns, clock.uncertainty_ticks});
    background_cpu_ns_ = std::max(background_cpu_ns_, clock.background_cpu_ns);
  }

  std::vector<ClockPoint> points_;
  std::uint64_t background_cpu_ns_ = 0;
  std::vector<trace::WaitingStack> waits_;
  std::vector<trace::Device> devices_;
  std::vector<trace::ActivityClock> activity_clocks_;
  trace::ActivityMode widest_activity_ = trace::ActivityMode::kOff;
  Dictionary dictionary_;
};

// The first tick of a process and what its machine's clocks showed then.
struct Start {
  std::int64_t monotonic_ns = 0;
  std::int64_t realtime_ns = 0;
};

Start start_of(const Process& process) {
  const auto believable = [](std::uint64_t ns) {
    return static_cast<std::int64_t>(std::min(ns, kMaxRealtimeNs));
  };
  Start start;
  start.realtime_ns = believable(process.file().header().start_realtime_ns);
  const std::vector<ClockPoint>& points = process.clock().points();
  if (points.empty()) return start;
  start.monotonic_ns = static_cast<std::int64_t>(points.front().monotonic_ns);
  if (points.front().realtime_ns != 0) {
    start.realtime_ns = believable(points.front().realtime_ns);
  }
  return start;
}

// Processes of one boot share the monotonic clock, which no administrator moves; machines are
// joined by the time of day. Each process gets the monotonic time at which the job began.
void join_clocks(std::vector<std::unique_ptr<Process>>& processes) {
  struct Boot {
    Start first;
    bool seen = false;
  };
  std::map<std::string, Boot> boots;
  std::int64_t job_start_realtime_ns = std::numeric_limits<std::int64_t>::max();
  const auto boot_of = [](const Process& process) {
    const Preview& preview = process.preview();
    return preview.boot_id.empty() ? "file " + process.file().path().string() : preview.boot_id;
  };
  for (const auto& process : processes) {
    const Start start = start_of(*process);
    Boot& boot = boots[boot_of(*process)];
    if (!boot.seen || start.monotonic_ns < boot.first.monotonic_ns) boot = {start, true};
  }
  for (const auto& [id, boot] : boots) {
    job_start_realtime_ns = std::min(job_start_realtime_ns, boot.first.realtime_ns);
  }
  for (const auto& process : processes) {
    const Start& first = boots[boot_of(*process)].first;
    process->set_origin(first.monotonic_ns - (first.realtime_ns - job_start_realtime_ns));
  }
}

}  // namespace

Preview preview_trace(const trace::TraceFile& file) {
  PreviewReader reader;
  reader.read(file);
  Preview preview;
  preview.clock = Clock(reader.points(), file.header().ticks_per_second);
  preview.background_cpu_ns = reader.background_cpu_ns();
  preview.host = reader.dictionary().text(trace::TextKey::kHost);
  preview.waits = reader.waits();
  preview.devices = reader.devices();
  preview.activity_clocks = reader.activity_clocks();
  preview.widest_activity = reader.widest_activity();
  preview.boot_id = reader.dictionary().text(trace::TextKey::kBootId);
  return preview;
}

SharedDevice* JobDevices::find_or_add(std::uint32_t process, const trace::Device& record) {
  if (record.uuid_low == 0 && record.uuid_high == 0) return nullptr;
  return &devices_[{machines_[process], record.uuid_high, record.uuid_low}];
}

Process::Process(std::uint32_t index, const std::filesystem::path& path, JobDevices& devices,
                 const ModelDetail& detail)
    : file_(path),
      preview_(preview_trace(file_)),
      merge_(file_),
      model_(index, merge_, devices, preview_.waits,
             ActivityClocks(preview_.activity_clocks, preview_.clock), preview_.widest_activity,
             detail, preview_.clock.ns_per_tick()) {
  devices.add_process(index, preview_.boot_id.empty() ? preview_.host : preview_.boot_id);
  for (const trace::Device& device : preview_.devices) model_.join_device(device);
}

std::uint64_t Process::last_tick_of(std::uint64_t job_ns) const {
  constexpr std::uint64_t kLastNs = ~std::uint64_t{0} >> 2;  // of any clock
  if (job_ns >= kLastNs) return ~std::uint64_t{0};
  const std::uint64_t next = clock().to_ticks(job_ns + 1);
  return next != 0 && clock().to_job_ns(next) > job_ns ? next - 1 : next;
}

void Process::look_at(const Looks& looks) {
  if (looks.window) {
    const auto [from_ns, to_ns] = *looks.window;
    model_.set_window({from_ns == 0 ? 0 : last_tick_of(from_ns - 1) + 1, last_tick_of(to_ns)});
  }
  if (looks.at_ns) model_.keep_moment(last_tick_of(*looks.at_ns));
}

void Process::run_until(std::uint64_t job_ns, std::uint64_t max_records) {
  const std::uint64_t last_key =
      job_ns == kEnd ? trace::kLastOrderKey : trace::last_key_of_ticks(clock().to_ticks(job_ns));
  merge_.run_until(std::max(last_key, merge_.next_key()), max_records, model_);
}

void Process::finish() {
  constexpr std::uint64_t kTicks = 1'000'000'000;
  constexpr std::uint64_t kShortestPeriodNs = 100'000;
  const std::uint64_t duration_ns = std::max(clock().duration_ns(kTicks), std::uint64_t{1});
  model_.finish(kShortestPeriodNs * kTicks / duration_ns);
}

void open_job(const std::vector<std::filesystem::path>& traces, const Looks& looks, Job& job) {
  for (const std::filesystem::path& path : traces) {
    const auto index = static_cast<std::uint32_t>(job.processes.size());
    try {
      job.processes.push_back(std::make_unique<Process>(index, path, job.devices, looks.detail));
    } catch (const trace::TraceError& error) {
      job.unreadable.push_back({path, error.what()});
    }
  }
  if (job.processes.empty() && !job.unreadable.empty()) {
    throw trace::TraceError(job.unreadable.front().reason);
  }
  join_clocks(job.processes);
  for (const auto& process : job.processes) process->look_at(looks);
}

void run_job(Job& job, const std::function<void(double)>& progress) {
  std::uint64_t total = 1;
  for (const auto& process : job.processes) {
    for (const trace::WriterStream& stream : process->file().writers()) {
      total += record_count(stream);
    }
  }
  using Turn = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::size_t i = 0; i < job.processes.size(); ++i) {
    if (!job.processes[i]->done()) turns.emplace(job.processes[i]->next_time_ns(), i);
  }
  std::uint64_t done = 0;
  std::uint64_t reported = 0;
  while (!turns.empty()) {
    const std::size_t index = turns.top().second;
    turns.pop();
    Process& process = *job.processes[index];
    const std::uint64_t before = process.records_done();
    process.run_until(turns.empty() ? Process::kEnd : turns.top().first, kSliceRecords);
    done += process.records_done() - before;
    if (!process.done()) turns.emplace(process.next_time_ns(), index);
    if (progress && done - reported >= kSliceRecords) {
      reported = done;
      progress(std::min(1.0, static_cast<double>(done) / static_cast<double>(total)));
    }
  }
  for (const auto& process : job.processes) process->finish();
  if (progress) progress(1.0);
}

}  // namespace gpumemtrace::analyzer
