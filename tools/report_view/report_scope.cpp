// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/report_scope.hpp"

#include <algorithm>
#include <set>
#include <type_traits>
#include <vector>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using rows::Report;

template <class Row>
void keep_processes(std::vector<Row>& list, const std::set<std::string>& ids) {
  std::erase_if(list, [&](const Row& row) {
    if constexpr (std::is_same_v<decltype(row.process), rows::OptionalText>) {
      return row.process && !ids.contains(*row.process);
    } else {
      return !ids.contains(row.process);
    }
  });
}

template <class Row>
void keep_device(std::vector<Row>& list, const std::string& device) {
  std::erase_if(list, [&](const Row& row) { return row.device && *row.device != device; });
}

// Calls visit(rows) for each list whose rows are of a process and a device.
template <class Visit>
void for_each_list(Report& report, Visit&& visit) {
  visit(report.usage);
  visit(report.peak);
  visit(report.modules);
  visit(report.tensors);
  visit(report.composition);
  visit(report.owners);
  visit(report.leaks.exit);
  visit(report.leaks.growth);
  visit(report.leaks.handles);
  visit(report.fragmentation);
  visit(report.transfers.by_kind);
  visit(report.transfers.sites);
  visit(report.oom);
  visit(report.timeline);
  visit(report.findings);
}

void keep_rank(Report& report, std::uint64_t rank) {
  std::set<std::string> ids;
  for (const rows::Process& process : report.processes) {
    if (process.rank == rank) ids.insert(process.id);
  }
  if (ids.empty()) throw Failure(format_text("no process of the job has the rank {}", rank));
  std::erase_if(report.processes,
                [&](const rows::Process& process) { return !ids.contains(process.id); });
  keep_processes(report.traces, ids);
  keep_processes(report.steps, ids);
  keep_processes(report.ranges, ids);
  keep_processes(report.marks, ids);
  keep_processes(report.costs, ids);
  if (report.allocations) keep_processes(*report.allocations, ids);
  for_each_list(report, [&](auto& list) { keep_processes(list, ids); });
  std::erase_if(report.devices, [&](const rows::Device& device) {
    return std::ranges::none_of(
        device.seen_as, [&](const rows::SeenAs& seen) { return ids.contains(seen.process); });
  });
}

}  // namespace

void narrow(Report& report, const ReportScope& scope) {
  if (scope.rank) keep_rank(report, *scope.rank);
  if (scope.device.empty()) return;
  std::erase_if(report.devices,
                [&](const rows::Device& device) { return device.id != scope.device; });
  if (report.devices.empty()) {
    throw Failure(format_text("the job has no device {}", scope.device));
  }
  for_each_list(report, [&](auto& list) { keep_device(list, scope.device); });
}

}  // namespace gpumemtrace::tools
