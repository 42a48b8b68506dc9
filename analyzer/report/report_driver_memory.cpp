// SPDX-License-Identifier: Apache-2.0
// Memory that the driver took by itself, for each process and device.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using rows::DriverPartKind;

CallSite most_frequent(const std::map<CallSite, std::uint64_t>& sites) {
  const auto most =
      std::ranges::max_element(sites, {}, [](const auto& site) { return site.second; });
  return most == sites.end() ? CallSite{} : most->first;
}

// The parts sum to the peak: the rest without a known cause is unknown.
std::vector<rows::DriverPart> parts_of(const ReportContext& context, const ReportProcess& process,
                                       const DriverUseOfDevice& use) {
  std::vector<rows::DriverPart> parts;
  std::uint64_t rest = use.peak_bytes;
  const auto add = [&](DriverPartKind what, std::uint64_t bytes, const CallSite& site) {
    const std::uint64_t part = std::min(bytes, rest);
    rest -= part;
    if (part == 0) return;
    parts.push_back(
        {what, part, rows::RowBasis::kInferred,
         site == CallSite{} ? std::nullopt : site_row(context.identity_of_site(process, site))});
  };
  const DriverShares& shares = use.at_peak;
  const auto share_of = [&](DriverCause cause) -> const DriverShare& {
    return shares.of_cause[static_cast<std::size_t>(cause)];
  };
  const DriverShare& contexts = share_of(DriverCause::kContext);
  const std::uint64_t came_with_them = shares.local_memory_of_new_contexts;
  add(DriverPartKind::kContext, contexts.bytes - std::min(contexts.bytes, came_with_them),
      contexts.first_at);
  add(DriverPartKind::kModules, share_of(DriverCause::kModules).bytes,
      share_of(DriverCause::kModules).first_at);
  add(DriverPartKind::kGraphs, share_of(DriverCause::kGraphs).bytes,
      most_frequent(use.graphs.instantiated_at));
  add(DriverPartKind::kLocalMemory, shares.local_memory_bytes, {});
  add(DriverPartKind::kUnknown, rest, {});
  return parts;
}

}  // namespace

std::vector<rows::DriverMemory> report_driver_memory(const ReportContext& context) {
  std::vector<rows::DriverMemory> list;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [ordinal, use] : process.model().driver_use().devices()) {
      if (ordinal < 0 || (use.samples == 0 && use.graphs.instantiated == 0)) continue;
      auto row = context.row_on<rows::DriverMemory>(process, ordinal);
      row.samples = use.samples;
      if (use.samples != 0) {
        // A checkpoint keeps the samples around the peak and the last one.
        if (process.model().statistics().checkpoint_time == 0) row.first_bytes = use.first_bytes;
        row.peak_bytes = use.peak_bytes;
        row.end_bytes = use.last_bytes;
        row.parts = parts_of(context, process, use);
      }
      row.graphs = {use.graphs.instantiated, use.graphs.destroyed, use.graphs.live_peak};
      list.push_back(std::move(row));
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
