// SPDX-License-Identifier: Apache-2.0
#include "analyzer/join/shared_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "analyzer/join/lists.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostOfProcess = 64;
// The clocks of two processes on one machine differ by less than this.
constexpr std::uint64_t kClockErrorNs = 1'000'000;

// The machine of each process: the id of its boot, or else its host.
using Machines = std::map<rows::ProcessId, std::string>;

Machines machines_of(const std::vector<rows::Process>& processes) {
  Machines machines;
  for (const rows::Process& process : processes) {
    machines[process.id] = process.boot_id.value_or(process.host.value_or(""));
  }
  return machines;
}

struct Export {
  const rows::ExportedBySite* site = nullptr;
  const rows::ExportedMemory* memory = nullptr;
};

class Exports {
 public:
  Exports(const std::vector<rows::ExportedBySite>& exported, const Machines& machines)
      : machines_(machines) {
    for (const rows::ExportedBySite& site : exported) {
      for (const rows::ExportedMemory& memory : site.memory) {
        by_handle_[{machines_.at(site.process), memory.handle}].push_back({&site, &memory});
      }
    }
  }

  // The last export of this handle before the memory was opened. The result has no site if no other
  // process of the machine exported it.
  [[nodiscard]] Export find(const rows::OpenedBySite& opener,
                            const rows::OpenedMemory& opened) const {
    Export last;
    const auto found = by_handle_.find({machines_.at(opener.process), opened.handle});
    if (found == by_handle_.end()) return last;
    for (const Export& one : found->second) {
      if (one.site->process == opener.process) continue;
      if (one.memory->time_ns > opened.time_ns + kClockErrorNs) continue;
      if (last.site == nullptr || last.memory->time_ns < one.memory->time_ns) last = one;
    }
    return last;
  }

 private:
  const Machines& machines_;
  std::map<std::pair<std::string, std::uint64_t>, std::vector<Export>> by_handle_;
};

// Adds a piece of opened memory to its row. `last_ns`: the end of the opener's trace, up to which
// memory that was not closed counts as open.
void add(const rows::OpenedMemory& opened, std::uint64_t last_ns, const Export& exported,
         rows::SharedMemory& row) {
  ++row.count;
  row.bytes += opened.bytes;
  if (!opened.end_ns) {
    ++row.live_count_at_end;
    row.live_bytes_at_end += opened.bytes;
  }
  if (exported.memory == nullptr || !exported.memory->end_ns) return;
  const std::uint64_t open_until_ns = opened.end_ns.value_or(last_ns);
  const std::uint64_t exporter_end_ns = *exported.memory->end_ns;
  if (opened.time_ns > exporter_end_ns || open_until_ns <= exporter_end_ns + kClockErrorNs) return;
  (exported.site->is_freed ? row.freed_while_open_bytes : row.ended_while_open_bytes) +=
      opened.bytes;
  row.kept_after_ns = std::max(row.kept_after_ns.value_or(0), open_until_ns - exporter_end_ns);
}

rows::SharedMemory row_of(const rows::OpenedBySite& opener, const rows::ExportedBySite* exporter) {
  rows::SharedMemory row;
  row.process = opener.process;
  row.device = opener.device;
  row.origin = opener.origin;
  row.is_exact = opener.is_exact;
  if (exporter == nullptr) {
    row.exporter_reason =
        "No other trace of this machine has the handle: its process was not recorded, or by an "
        "earlier recorder, or the part of its trace with this memory was not kept.";
    return row;
  }
  row.exporter = exporter->process;
  row.exporter_device = exporter->device;
  row.allocated_at = exporter->allocated_at;
  row.freed_at = exporter->freed_at;
  return row;
}

// The rows of one opener of memory, one for each site that exported to it.
std::vector<rows::SharedMemory> pair(const rows::OpenedBySite& opener, const Exports& exports) {
  std::map<const rows::ExportedBySite*, std::size_t> indexes;
  std::vector<rows::SharedMemory> list;
  for (const rows::OpenedMemory& opened : opener.memory) {
    const Export exported = exports.find(opener, opened);
    const auto [index, added] = indexes.try_emplace(exported.site, list.size());
    if (added) list.push_back(row_of(opener, exported.site));
    add(opened, opener.last_ns, exported, list[index->second]);
  }
  return list;
}

void add_rest(const rows::SharedMemory& row, rows::SharedMemory& rest) {
  rest.process = row.process;
  rest.exporter_reason = "This row has the sums of all smaller ones.";
  rest.count += row.count;
  rest.bytes += row.bytes;
  rest.live_count_at_end += row.live_count_at_end;
  rest.live_bytes_at_end += row.live_bytes_at_end;
  rest.freed_while_open_bytes += row.freed_while_open_bytes;
  rest.ended_while_open_bytes += row.ended_while_open_bytes;
  rest.kept_after_ns = std::max(rest.kept_after_ns, row.kept_after_ns);
  rest.is_exact = rest.is_exact && row.is_exact;
}

// Keeps the largest rows of one process, and adds a row with the sums of the others.
std::vector<rows::SharedMemory> cut(std::vector<rows::SharedMemory> list) {
  std::ranges::stable_sort(list, std::ranges::greater(), &rows::SharedMemory::bytes);
  if (list.size() <= kMostOfProcess) return list;
  rows::SharedMemory rest;
  for (std::size_t i = kMostOfProcess; i < list.size(); ++i) add_rest(list[i], rest);
  list.resize(kMostOfProcess);
  list.push_back(std::move(rest));
  return list;
}

}  // namespace

void pair_shared_memory(const std::vector<rows::ExportedBySite>& exported,
                        const std::vector<rows::OpenedBySite>& opened, rows::Report& report) {
  const Machines machines = machines_of(report.processes);
  const Exports exports(exported, machines);
  std::map<std::uint64_t, std::vector<rows::SharedMemory>> by_process;
  for (rows::SharedMemory& row : report.shared_memory) {
    by_process[number_of(row.process)].push_back(std::move(row));
  }
  for (const rows::OpenedBySite& opener : opened) {
    append_list(pair(opener, exports), by_process[number_of(opener.process)]);
  }
  report.shared_memory.clear();
  for (auto& [process, list] : by_process) append_list(cut(std::move(list)), report.shared_memory);
}

}  // namespace gpumemtrace::analyzer
