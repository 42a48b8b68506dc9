// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/report_scope.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/rows/walk.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using rows::Report;

template <class Value>
constexpr bool kIsList = false;
template <class Row>
constexpr bool kIsList<std::vector<Row>> = true;

// Removes from every list of a report the rows of processes and devices that are not in the two
// sets. Rows that name neither a process nor a device stay.
class Narrower {
 public:
  Narrower(std::set<std::string> processes, std::set<std::string> devices)
      : processes_(std::move(processes)), devices_(std::move(devices)) {}

  void operator()(const char*, auto& value) { visit(value); }
  void added(const char*, auto& value) { visit(value); }
  void only_if_known(const char*, auto& optional) {
    if (optional) visit(*optional);
  }
  void exact(bool) {}

 private:
  template <class Value>
  void visit(Value& value) {
    if constexpr (kIsList<Value>) {
      std::erase_if(value, [this](const auto& row) { return is_left_out(row); });
    } else if constexpr (requires { Value::fields(value, *this); }) {
      Value::fields(value, *this);
    }
  }

  template <class Row>
  [[nodiscard]] bool is_left_out(const Row& row) const {
    const rows::ProcessId* const process = rows::process_of(row);
    const rows::DeviceId* const device = rows::device_of(row);
    return (process != nullptr && !processes_.contains(*process)) ||
           (device != nullptr && !devices_.contains(*device));
  }

  std::set<std::string> processes_;
  std::set<std::string> devices_;
};

std::set<std::string> processes_of(const Report& report, const ReportScope& scope) {
  std::set<std::string> ids;
  for (const rows::Process& process : report.processes) {
    if (!scope.rank || process.rank == *scope.rank) ids.insert(process.id);
  }
  if (scope.rank && ids.empty()) {
    throw Failure(format_text("no process of the job has the rank {}", *scope.rank));
  }
  return ids;
}

// The ids of the devices in the scope: the named device or all; with a rank, only devices that one
// of `processes` sees.
std::set<std::string> devices_in_scope(const Report& report, const ReportScope& scope,
                                       const std::set<std::string>& processes) {
  std::set<std::string> ids;
  for (const rows::Device& device : report.devices) {
    const bool is_seen = std::ranges::any_of(
        device.seen_as, [&](const rows::SeenAs& seen) { return processes.contains(seen.process); });
    const bool is_named = scope.device.empty() || device.id == scope.device;
    if (is_named && (!scope.rank || is_seen)) ids.insert(device.id);
  }
  if (!scope.device.empty() && ids.empty()) {
    throw Failure(format_text("the job has no device {}", scope.device));
  }
  return ids;
}

}  // namespace

void narrow(Report& report, const ReportScope& scope) {
  if (scope.is_whole()) return;
  std::set<std::string> processes = processes_of(report, scope);
  std::set<std::string> devices = devices_in_scope(report, scope, processes);
  Narrower narrower(std::move(processes), std::move(devices));
  Report::fields(report, narrower);
  sum_up(report.leaks);
}

}  // namespace gpumemtrace::tools
