// SPDX-License-Identifier: Apache-2.0
// All traces of one job, read and modelled: what the report is drawn from.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/base/clock.hpp"
#include "analyzer/model/process/process.hpp"
#include "analyzer/order/merge.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

// What is needed of a trace before its records can be put in order.
struct Preview {
  Clock clock;
  std::uint64_t background_cpu_ns = 0;  // processor time of the recorder's thread; 0: not told
  std::string host;
  std::string boot_id;
  std::vector<trace::WaitingStack> waits;
  std::vector<trace::Device> devices;
  std::vector<trace::ActivityClock> activity_clocks;
  trace::ActivityMode widest_activity = trace::ActivityMode::kOff;  // that was ever recorded
};

// What is looked at more closely, in nanoseconds of the job.
struct JobWindow {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = ~std::uint64_t{0};  // the last one
};
struct Looks {
  ModelDetail detail;
  std::optional<JobWindow> window;  // timelines and largest lives have this part of the run alone
  std::optional<std::uint64_t> at_ns;  // what is live then is kept
};

// Reads the clock records, the place of the process, its devices and who waited in backward passes
// ahead of everything else.
[[nodiscard]] Preview preview_trace(const trace::TraceFile& file);

// The physical devices of a job. A device is known by its uuid on its machine.
class JobDevices final : public DeviceRegistry {
 public:
  // Says on which machine a process runs; before the process's first record.
  void add_process(std::uint32_t process, std::string machine) { machines_[process] = machine; }
  [[nodiscard]] SharedDevice* find_or_add(std::uint32_t process,
                                          const trace::Device& record) override;

 private:
  std::map<std::uint32_t, std::string> machines_;
  std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, SharedDevice> devices_;
};

// One trace: the file, its records in order, and the model that they build.
class Process {
 public:
  Process(std::uint32_t index, const std::filesystem::path& path, JobDevices& devices,
          const ModelDetail& detail);

  [[nodiscard]] const trace::TraceFile& file() const { return file_; }
  [[nodiscard]] const Preview& preview() const { return preview_; }
  [[nodiscard]] const Clock& clock() const { return preview_.clock; }
  [[nodiscard]] const ProcessModel& model() const { return model_; }
  [[nodiscard]] const trace::ReadLosses& read_losses() const { return merge_.losses(); }
  [[nodiscard]] std::uint64_t records_done() const { return merge_.records(); }

  void set_origin(std::int64_t origin_ns) { preview_.clock.set_origin(origin_ns); }
  // Before the first record, with the origin set.
  void look_at(const Looks& looks);
  [[nodiscard]] bool done() const { return merge_.next_key() == ProcessMerge::kNoMore; }
  // Job time of the next record; only while not done.
  [[nodiscard]] std::uint64_t next_time_ns() const {
    return clock().to_job_ns(trace::ticks_of_key(merge_.next_key()));
  }
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  // Takes the records up to a time of the job, at least one, at most so many.
  void run_until(std::uint64_t job_ns, std::uint64_t max_records);
  void finish();

  // The report's moments in nanoseconds of the job.
  [[nodiscard]] std::uint64_t time_ns(std::uint64_t model_time) const {
    return clock().to_job_ns(model_time);
  }

 private:
  // The last tick whose time in the report is not after this one.
  [[nodiscard]] std::uint64_t last_tick_of(std::uint64_t job_ns) const;

  trace::TraceFile file_;
  Preview preview_;
  ProcessMerge merge_;
  ProcessModel model_;
};

// A file among the job's that is no trace, or a damaged one, and why.
struct UnreadableTrace {
  std::filesystem::path path;
  std::string reason;
};

struct Job {
  JobDevices devices;
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<UnreadableTrace> unreadable;
};

// Opens the traces and joins their clocks. One that cannot be read is noted, so that it does not
// hide the others. Throws trace::TraceError where none can be read.
void open_job(const std::vector<std::filesystem::path>& traces, const Looks& looks, Job& job);
// Takes all records of all processes in the order of time.
void run_job(Job& job, const std::function<void(double)>& progress);

}  // namespace gpumemtrace::analyzer
