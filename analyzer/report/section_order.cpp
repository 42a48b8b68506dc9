// SPDX-License-Identifier: Apache-2.0
// The order of the rows of sections that do not keep that of the processes.
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {

void sort_sections(rows::Report& report) {
  sort_rows(report.usage, &rows::Usage::peak_bytes);
  sort_rows(report.peak, &rows::Peak::bytes);
  sort_rows(report.modules, &rows::Module::bytes);
  sort_rows(report.owners, &rows::Owner::bytes_at_peak);
  sort_rows(report.leaks.exit, &rows::ExitLeak::bytes);
  sort_rows(report.leaks.growth, &rows::Growth::bytes);
  sort_rows(report.leaks.handles, &rows::OpenHandles::bytes);
  sort_rows(report.transfers.by_kind, &rows::Copies::bytes);
  sort_rows(report.transfers.hotspots, &rows::Hotspot::bytes);
  sort_rows(report.transfers.sets, &rows::Sets::bytes);
  sort_rows(report.transfers.streams, &rows::Stream::bytes);
  sort_rows(report.managed, &rows::Managed::migrated_bytes);
  sort_rows(report.oom, &rows::Oom::requested_bytes);
  sort_rows(report.ranges_by_name, &rows::RangesOfName::peak_bytes);
  sort_rows(report.costs, &rows::Cost::allocated_bytes);
}

}  // namespace gpumemtrace::analyzer
