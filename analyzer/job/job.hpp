// SPDX-License-Identifier: Apache-2.0
// All traces of one job, read and applied to the processes' models: the input of the report.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/base/clock.hpp"
#include "analyzer/model/process/process.hpp"
#include "analyzer/order/merge.hpp"
#include "analyzer/stacks/dictionary.hpp"
#include "trace/reader.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// The file that a trace was made from, if it was not recorded.
struct TraceSource {
  trace::Source file;
  std::string left_out_because;  // why not all events of the file are in the trace; empty = all are
};

// The parts of a trace that are needed before its records can be put in order and applied.
struct Preview {
  Clock clock;
  std::uint64_t background_cpu_ns = 0;  // processor time of the recorder's threads; 0: not known
  std::string host;
  std::string boot_id;
  trace::Clock realtime;  // the clock record that tells most about the error of the time of day
  // stacks of threads that waited in backward passes, if the recorder's own thread sampled them
  std::vector<trace::WaitingStack> waits;
  std::vector<trace::Device> devices;
  std::vector<trace::ActivityClock> activity_clocks;
  // the widest mode in which CUPTI's activities were ever recorded
  trace::ActivityMode widest_activity = trace::ActivityMode::kOff;
  std::optional<TraceSource> source;

  // True if a model that began with this preview can go on with the later one: both name the same
  // host and boot, and the later one has no more waiting threads and devices, which a model needs
  // before its first record.
  [[nodiscard]] bool serves_for(const Preview& later) const {
    return boot_id == later.boot_id && host == later.host && waits.size() == later.waits.size() &&
           devices.size() == later.devices.size();
  }
};

// The number of the writer's records in the packed file; records still in the ring are not counted.
[[nodiscard]] std::uint64_t record_count(const trace::WriterStream& stream);

// Reads before all other records the clock records, the process's host and devices, and the threads
// that waited in backward passes. It reads the streams of the recorder's own writers and of writers
// with few records.
class PreviewReader {
 public:
  // Reads a file, from the end of the last reading on if it was read before. False if it is another
  // file, or lacks the records already read.
  [[nodiscard]] bool read(const trace::TraceFile& file);
  [[nodiscard]] Preview preview(const trace::TraceFile& file) const;

 private:
  struct Stream {
    trace::StreamPosition position;
    bool has_begun = false;
    bool is_recorders = false;
  };

  [[nodiscard]] bool read(const trace::TraceFile& file, const trace::WriterStream& writer);
  void take(const trace::RecordHeader& record, const Stream& stream);

  std::map<std::uint32_t, Stream> streams_;  // the reading position in each writer's stream
  std::vector<ClockPoint> points_;
  Preview preview_;  // the preview without the members that preview() computes
  Dictionary dictionary_;
};

// False while all calibrations lie so close together that their jitter decides the clock's rate, as
// in a process's first second. Such a clock cannot convert times after the last calibration.
[[nodiscard]] inline bool knows_rate(const Clock& clock) {
  constexpr std::uint64_t kLeastNs = 10'000'000;
  return !clock.points().empty() &&
         clock.points().back().monotonic_ns - clock.points().front().monotonic_ns >= kLeastNs;
}

// The part of the run to show in detail, in nanoseconds of the job.
struct JobWindow {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = ~std::uint64_t{0};  // the end of the run, if no other time is set
};
// The time up to which records of running processes are taken.
struct ReadLimit {
  std::uint64_t monotonic_ns = 0;  // time of the monotonic clock of the processes' machine
  // The limit also holds for processes that have ended, on whichever machine: they are read as if
  // they were running.
  bool is_replay = false;
};
struct JobView {
  ModelDetail detail;
  // If this is set, only calls that have returned are taken, so no later record belongs before one
  // that was taken.
  std::optional<ReadLimit> until;
  // the part of the run to which timelines and largest lives are limited
  std::optional<JobWindow> window;
  std::optional<std::uint64_t> at_ns;  // a time of the job: the memory that is live then is kept
};

// A trace that is open, and the preview that is read before its records are taken.
struct OpenTrace {
  explicit OpenTrace(const std::filesystem::path& path);

  std::unique_ptr<trace::TraceFile> file;
  PreviewReader preview_reader;
  Preview preview;
};

// One recorded process: its trace file, its records in order, and the model that they build.
class Process {
 public:
  Process(std::uint32_t index, OpenTrace trace, const JobView& view);

  [[nodiscard]] const trace::TraceFile& file() const { return *file_; }
  [[nodiscard]] const Preview& preview() const { return preview_; }
  [[nodiscard]] const Clock& clock() const { return preview_.clock; }
  [[nodiscard]] const ProcessModel& model() const { return model_; }
  [[nodiscard]] trace::ReadLosses read_losses() const { return merge_->losses(); }
  [[nodiscard]] std::uint64_t records_done() const { return merge_->records(); }

  // Opens the trace again, to take the records up to the time `until` that were not taken before.
  // Returns false if the new records do not simply follow those taken: the file was replaced,
  // records are gone or came late, or the clock does not know its rate. The process must not be
  // used any more then. Throws trace::TraceError.
  [[nodiscard]] bool go_on(const ReadLimit& until);

  void set_origin(std::int64_t origin_ns) { preview_.clock.set_origin(origin_ns); }
  // Called before the first record is taken, after set_origin().
  void set_view(const JobView& view);
  [[nodiscard]] bool done() const { return merge_->next_key() == ProcessMerge::kNoMore; }
  // True if all records were taken, and it is known that the process has ended.
  [[nodiscard]] bool has_ended() const;
  // Takes the next records, at most `max_records`.
  void run(std::uint64_t max_records) {
    merge_->run_until(trace::kLastOrderKey, max_records, model_);
  }
  void finish() { model_.finish(shortest_period()); }
  // Called instead of finish() if more records may follow.
  void pause() { model_.pause(shortest_period()); }

  // Converts model time to the report's times, in nanoseconds of the job.
  [[nodiscard]] std::uint64_t time_ns(std::uint64_t model_time) const {
    return clock().to_job_ns(model_time);
  }

 private:
  // The last tick whose time in the report is at most `job_ns`.
  [[nodiscard]] std::uint64_t last_tick_of(std::uint64_t job_ns) const;
  [[nodiscard]] bool knows_tick_of(const ReadLimit& until) const;
  [[nodiscard]] MergeLimit limit_of(const std::optional<ReadLimit>& until) const;
  // The shortest period, in ticks, that counts as a step of the program and not as a loop.
  [[nodiscard]] std::uint64_t shortest_period() const;

  std::unique_ptr<trace::TraceFile> file_;
  PreviewReader preview_reader_;
  Preview preview_;
  std::optional<ProcessMerge> merge_;
  ProcessModel model_;
  bool is_replay_;  // the process is read as of a past time, see ReadLimit::is_replay
};

// A file of the job that is no trace, or a damaged trace, and the reason.
struct UnreadableTrace {
  std::filesystem::path path;
  std::string reason;
};

struct Job {
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<UnreadableTrace> unreadable;
};

// Opens the traces, several at once, and puts their times on one clock. A trace that cannot be read
// is listed in job.unreadable, so that the others are still reported. Throws trace::TraceError if
// no trace can be read.
void open_job(const std::vector<std::filesystem::path>& traces, const JobView& view, Job& job);

// The progress of reading a job. Only the thread that made this object calls `report`.
class JobProgress {
 public:
  // `report` is called with the fraction of records taken, 0 to 1; it may be empty. It is kept by
  // reference.
  JobProgress(const Job& job, const std::function<void(double)>& report);

  void add(std::uint64_t records);
  void end() const;

 private:
  const std::function<void(double)>& report_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::uint64_t total_ = 1;
  std::atomic<std::uint64_t> done_ = 0;
  std::uint64_t reported_ = 0;
};

// Takes all records of the process that are there. Several threads may call this, each for another
// process.
void take_records(Process& process, JobProgress& progress);

// A job that may be running, refreshed again and again.
//
//   refresh 1   |-- records -->| T1   open calls, records of the last moments
//   refresh 2                  |-- records -->| T2
//
// - Each refresh opens the traces again and takes the records up to its time that were not taken
//   before; the models go on. The models are then as if all records up to that time had been read
//   at once.
// - If a refresh cannot go on (Process::go_on()), or traces came or went, the job is read from its
//   start. A process whose recording is over is not read again.
class FollowedJob {
 public:
  // `inputs`: traces and folders of traces.
  explicit FollowedJob(std::vector<std::filesystem::path> inputs) : inputs_(std::move(inputs)) {}

  // Refreshes the job. Throws trace::TraceError if no trace can be read. The times of successive
  // calls must rise.
  [[nodiscard]] const Job& look(const ReadLimit& until);
  // Counts how often the job was read from its start.
  [[nodiscard]] std::uint64_t full_reads() const { return full_reads_; }

 private:
  [[nodiscard]] bool go_on(const std::vector<std::filesystem::path>& traces,
                           const ReadLimit& until);

  std::vector<std::filesystem::path> inputs_;
  std::vector<std::filesystem::path> traces_;
  std::unique_ptr<Job> job_;
  std::uint64_t full_reads_ = 0;
};

}  // namespace gpumemtrace::analyzer
