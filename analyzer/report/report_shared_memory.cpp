// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: the rows of each process, before they are paired with rows of other
// processes.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A recorder writes at least once a second, so a process that was killed ended at most 2 s after
// the last record of its trace.
constexpr std::uint64_t kLatestEndNs = 2'000'000'000;

std::uint64_t last_ns_of(const ReportProcess& process) {
  return process.time_ns(process.model().statistics().last_time).value_or(0);
}

// The time of the process's end; no value if it still runs, as far as the trace tells.
rows::OptionalNumber end_of(const ReportProcess& process) {
  if (!process.process->has_ended()) return std::nullopt;
  const bool was_killed = process.end == rows::TraceEnd::kKilled;
  return last_ns_of(process) + (was_killed ? kLatestEndNs : 0);
}

rows::OptionalNumber end_of(const ReportProcess& process, const ExportedMemory& memory) {
  return memory.end_time == 0 ? end_of(process) : process.time_ns(memory.end_time);
}

const Group& group_of(const ReportProcess& process, std::uint32_t group) {
  return process.model().accounts().group(group);
}

struct OpenerKey {
  std::int32_t device = kUnknownDevice;
  std::string reason;  // why the exporter is not known; empty if other traces may tell
  Identity identity;
  friend auto operator<=>(const OpenerKey&, const OpenerKey&) = default;
};

class OpenedOfProcess {
 public:
  OpenedOfProcess(const ReportContext& context, const ReportProcess& process)
      : context_(context), process_(process) {}

  // The rows of opened memory without a handle: no other process's trace could tell the exporter.
  [[nodiscard]] std::vector<rows::SharedMemory> unpaired() const {
    std::map<OpenerKey, rows::SharedMemory> sums;
    for (const OpenedMemory& memory : opened()) {
      if (memory.handle != 0) continue;
      rows::SharedMemory& row = sums[key_of(memory.group, reason_of(memory))];
      add(1, memory.bytes, row.count, row.bytes);
      if (memory.end_time == 0) add(1, memory.bytes, row.live_count_at_end, row.live_bytes_at_end);
    }
    add_descriptors(sums);
    std::vector<rows::SharedMemory> list;
    for (auto& [key, row] : sums) {
      fill(key, row);
      row.exporter_reason = key.reason;
      list.push_back(std::move(row));
    }
    return list;
  }

  // Memory opened by handle, for which the exporter's trace can tell the owner.
  [[nodiscard]] std::vector<rows::OpenedBySite> by_handle() const {
    std::map<OpenerKey, rows::OpenedBySite> sites;
    for (const OpenedMemory& memory : opened()) {
      if (memory.handle == 0) continue;
      sites[key_of(memory.group, {})].memory.push_back({memory.handle, memory.bytes,
                                                        process_.known_time_ns(memory.time),
                                                        process_.time_ns(memory.end_time)});
    }
    std::vector<rows::OpenedBySite> list;
    for (auto& [key, row] : sites) {
      fill(key, row);
      row.last_ns = last_ns_of(process_);
      list.push_back(std::move(row));
    }
    return list;
  }

 private:
  [[nodiscard]] const std::vector<OpenedMemory>& opened() const {
    return process_.model().memory().shared.opened();
  }
  [[nodiscard]] OpenerKey key_of(std::uint32_t group, std::string reason) const {
    const GroupKey& key = group_of(process_, group).key;
    return {key.device, std::move(reason), context_.identity_of_site(process_, key.site)};
  }
  static std::string reason_of(const OpenedMemory& memory) {
    return memory.is_of_pool ? "A pointer of an imported pool does not tell whose memory it is."
                             : "The recorder of this trace did not note the handle.";
  }
  static void add(std::uint64_t more_count, std::uint64_t more_bytes, std::uint64_t& count,
                  std::uint64_t& bytes) {
    count += more_count;
    bytes += more_bytes;
  }
  template <class Row>
  void fill(const OpenerKey& key, Row& row) const {
    row.process = process_.id;
    row.device = context_.device_id(process_, key.device);
    row.origin = origin_of(key.identity);
    row.is_exact = !is_inexact(process_, Level::kImported);
  }
  // Adds physical memory that was imported through a file descriptor or a fabric handle.
  void add_descriptors(std::map<OpenerKey, rows::SharedMemory>& sums) const {
    const std::string reason =
        "A descriptor or a fabric handle does not tell whose memory it is, or that it is "
        "another's.";
    const std::vector<Group>& groups = process_.model().accounts().groups();
    for (std::uint32_t i = 0; i < groups.size(); ++i) {
      if (groups[i].key.kind != Kind::kImportedVmm || groups[i].allocations == 0) continue;
      rows::SharedMemory& row = sums[key_of(i, reason)];
      add(groups[i].allocations, groups[i].allocated_bytes, row.count, row.bytes);
    }
    process_.model().memory().virtual_memory.for_each_physical(
        [&](const ProcessMemory::PhysicalMemory& physical) {
          const std::uint32_t group = physical.entry.group;
          if (group_of(process_, group).key.kind != Kind::kImportedVmm) return;
          rows::SharedMemory& row = sums[key_of(group, reason)];
          add(1, physical.entry.bytes, row.live_count_at_end, row.live_bytes_at_end);
        });
  }

  const ReportContext& context_;
  const ReportProcess& process_;
};

// The key by which exported memory is summed: the device, the site that allocated it, and the site
// that freed it (no value if nothing did).
using ExporterKey = std::tuple<std::int32_t, Identity, std::optional<Identity>>;

std::vector<rows::ExportedBySite> exported_rows(const ReportContext& context,
                                                const ReportProcess& process) {
  std::map<ExporterKey, rows::ExportedBySite> sites;
  for (const ExportedMemory& memory : process.model().memory().shared.exported()) {
    const GroupKey& key = group_of(process, memory.group).key;
    std::optional<Identity> freed_at;
    if (memory.freed_at) freed_at = context.identity_of_site(process, *memory.freed_at);
    rows::ExportedBySite& row =
        sites[{key.device, context.identity_of_site(process, key.site), freed_at}];
    if (row.memory.empty()) {
      row.process = process.id;
      row.device = context.device_id(process, key.device);
      row.allocated_at = location_of(context, process, key.site);
      row.is_freed = memory.freed_at.has_value();
      if (row.is_freed) row.freed_at = location_of(context, process, *memory.freed_at);
    }
    row.memory.push_back(
        {memory.handle, process.known_time_ns(memory.time), end_of(process, memory)});
  }
  std::vector<rows::ExportedBySite> list;
  for (auto& [key, row] : sites) list.push_back(std::move(row));
  return list;
}

}  // namespace

std::vector<rows::SharedMemory> report_unpaired_memory(const ReportContext& context) {
  return context.gather<rows::SharedMemory>(
      [&](const ReportProcess& process, std::vector<rows::SharedMemory>& list) {
        append(OpenedOfProcess(context, process).unpaired(), list);
      });
}

std::vector<rows::OpenedBySite> report_opened_memory(const ReportContext& context) {
  return context.gather<rows::OpenedBySite>(
      [&](const ReportProcess& process, std::vector<rows::OpenedBySite>& list) {
        append(OpenedOfProcess(context, process).by_handle(), list);
      });
}

std::vector<rows::ExportedBySite> report_exported_memory(const ReportContext& context) {
  return context.gather<rows::ExportedBySite>(
      [&](const ReportProcess& process, std::vector<rows::ExportedBySite>& list) {
        append(exported_rows(context, process), list);
      });
}

}  // namespace gpumemtrace::analyzer
