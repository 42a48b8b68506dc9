// SPDX-License-Identifier: Apache-2.0
// Sorts the rows of those sections that are not in the order of processes.
#include <functional>
#include <vector>

#include "analyzer/base/parallel.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {

void sort_sections(rows::Report& report) {
  std::vector<std::function<void()>> sorts;
  const auto sort = [&](auto& list, auto number) {
    sorts.emplace_back([&list, number] { sort_rows(list, number); });
  };
  sort(report.usage, &rows::Usage::peak_bytes);
  sort(report.peak, &rows::Peak::bytes);
  sort(report.modules, &rows::Module::bytes);
  sort(report.owners, &rows::Owner::bytes_at_peak);
  sort(report.leaks.exit, &rows::ExitLeak::bytes);
  sort(report.leaks.growth, &rows::Growth::bytes);
  sort(report.leaks.handles, &rows::OpenHandles::bytes);
  sort(report.transfers.by_kind, &rows::Copies::bytes);
  sort(report.transfers.hotspots, &rows::Hotspot::bytes);
  sort(report.transfers.sets, &rows::Sets::bytes);
  sort(report.transfers.streams, &rows::Stream::bytes);
  sort(report.managed, &rows::Managed::migrated_bytes);
  sort(report.oom, &rows::Oom::requested_bytes);
  sort(report.ranges_by_name, &rows::RangesOfName::peak_bytes);
  sort(report.costs, &rows::Cost::allocated_bytes);
  in_parallel(sorts.size(), [&](std::size_t i) { sorts[i](); });
}

}  // namespace gpumemtrace::analyzer
