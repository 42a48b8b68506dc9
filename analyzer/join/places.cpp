// SPDX-License-Identifier: Apache-2.0
#include "analyzer/join/places.hpp"

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/job/job_clock.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A key that is equal for the same trace in two partial reports. A copy of a trace has the same
// file name; files of other tools can only be told apart by their folders.
std::string trace_key(const TakenProcess& taken) {
  const std::filesystem::path path = taken.process->path;
  const bool is_recorded = !taken.row->identity_reason;
  return taken.process->trace + ' ' + (is_recorded ? path.filename() : path).string();
}

// The processes of all partial reports in their order in the job. `repeated_traces_count_once`: of
// the processes of a trace, only the one in the first partial report is taken.
std::vector<TakenProcess> take_processes(const std::vector<rows::Partial>& partials,
                                         bool repeated_traces_count_once) {
  std::vector<TakenProcess> all;
  for (std::size_t i = 0; i < partials.size(); ++i) {
    for (std::size_t k = 0; k < partials[i].processes.size(); ++k) {
      all.push_back({i, &partials[i].processes[k], &partials[i].report.processes.at(k)});
    }
  }
  std::set<std::string> known;
  std::erase_if(all, [&](const TakenProcess& taken) {
    return repeated_traces_count_once && !known.insert(trace_key(taken)).second;
  });
  const auto place_of = [](const TakenProcess& taken) {
    return std::tuple(std::filesystem::path(taken.process->path), taken.process->trace);
  };
  std::ranges::stable_sort(all, {}, place_of);
  return all;
}

void place_processes(JobPlaces& job) {
  std::vector<ClockStart> starts;
  for (const TakenProcess& taken : job.processes) {
    starts.push_back({boot_of(taken.row->boot_id.value_or(""), taken.process->path),
                      believable_ns(taken.process->monotonic_ns),
                      believable_ns(taken.process->realtime_ns)});
  }
  const std::vector<std::int64_t> origins = job_origins(starts);
  for (std::size_t i = 0; i < job.processes.size(); ++i) {
    const TakenProcess& taken = job.processes[i];
    job.of_partial[taken.partial].processes[taken.process->process] = {"p" + std::to_string(i + 1),
                                                                       origins[i]};
  }
}

struct SeenDevice {
  std::int64_t ordinal = 0;
  const rows::Device* row = nullptr;
};

std::vector<SeenDevice> devices_of(const rows::Partial& partial, const rows::ProcessId& process) {
  std::vector<SeenDevice> devices;
  for (const rows::Device& device : partial.report.devices) {
    for (const rows::SeenAs& seen : device.seen_as) {
      if (seen.process == process) devices.push_back({seen.ordinal, &device});
    }
  }
  std::ranges::sort(devices, {}, &SeenDevice::ordinal);
  return devices;
}

// Gives devices their ids in the job: a device is known by its uuid and its machine.
void place_devices(const std::vector<rows::Partial>& partials, JobPlaces& job) {
  std::map<std::pair<std::string, std::string>, std::size_t> by_uuid;
  for (const TakenProcess& taken : job.processes) {
    JobIds& ids = job.of_partial[taken.partial];
    const ProcessPlace& place = ids.processes.at(taken.process->process);
    const std::string machine = taken.row->boot_id.value_or(taken.row->host.value_or(""));
    for (const SeenDevice& seen : devices_of(partials[taken.partial], taken.process->process)) {
      std::size_t index = job.devices.size();
      if (seen.row->uuid) {
        index = by_uuid.try_emplace({machine, *seen.row->uuid}, index).first->second;
      }
      const std::string id = "d" + std::to_string(index);
      if (index == job.devices.size()) {
        job.devices.push_back(*seen.row);
        job.devices.back().id = id;
        job.devices.back().seen_as.clear();
      }
      job.devices[index].seen_as.push_back({place.id, seen.ordinal});
      ids.devices.try_emplace(seen.row->id, id);
    }
  }
}

// Gives rows the job's ids and times. Rows of a process that is left out get an empty id, and are
// erased later.
class Placer {
 public:
  explicit Placer(const JobIds& ids) : ids_(ids) {}

  // Notes the origin of the row's process, by which the row's times are then converted.
  template <class Row>
  void operator()(const char*, Row& row) {
    if constexpr (requires { row.process; }) {
      if constexpr (std::same_as<decltype(row.process), rows::ProcessId>) {
        origin_ns_ = place_of(row.process).origin_ns;
      }
    }
  }
  void operator()(const char*, rows::ProcessId& id) { id = place_of(id).id; }
  void operator()(const char*, rows::DeviceId& id) {
    const auto found = ids_.devices.find(id);
    id = found == ids_.devices.end() ? std::string() : found->second;
  }
  void operator()(const char*, rows::StackId& id) {
    const std::size_t end = id.find(':');
    id = place_of(rows::ProcessId(id.substr(0, end))).id + id.substr(end);
  }
  // A rows::PartId is PROCESS:DEVICE:REST; the middle is kept if it is no id of a device.
  void operator()(const char*, rows::PartId& id) {
    const std::size_t end = id.find(':');
    const std::size_t next = std::min(id.find(':', end + 1), id.size());
    const auto device = ids_.devices.find(id.substr(end + 1, next - end - 1));
    std::string rest = id.substr(end);
    if (device != ids_.devices.end()) rest = ':' + device->second + id.substr(next);
    id = place_of(rows::ProcessId(id.substr(0, end))).id + rest;
  }
  void operator()(const char*, rows::JobTime& time) {
    // a later time, which only a damaged file has, becomes this one
    constexpr std::int64_t kLatestNs = std::int64_t{1} << 62;
    const auto monotonic_ns = static_cast<std::int64_t>(std::uint64_t{time});
    const std::int64_t ns = std::clamp(monotonic_ns, -kLatestNs, kLatestNs) - origin_ns_;
    time = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
  }

 private:
  [[nodiscard]] ProcessPlace place_of(const rows::ProcessId& id) const {
    const auto found = ids_.processes.find(id);
    return found == ids_.processes.end() ? ProcessPlace() : found->second;
  }

  const JobIds& ids_;
  std::int64_t origin_ns_ = 0;
};

}  // namespace

JobPlaces find_places(const std::vector<rows::Partial>& partials, bool repeated_traces_count_once) {
  JobPlaces job;
  job.of_partial.resize(partials.size());
  job.processes = take_processes(partials, repeated_traces_count_once);
  place_processes(job);
  place_devices(partials, job);
  return job;
}

void apply_job_ids(const JobIds& ids, rows::Partial& partial) { rows::walk(partial, Placer(ids)); }

}  // namespace gpumemtrace::analyzer
