// SPDX-License-Identifier: Apache-2.0
// Memory that the driver took for itself, for each process and device, and handles that were never
// released.
#include <algorithm>
#include <set>

#include "analyzer/model/memory/handles.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using ledger::DriverCause;
using ledger::DriverShare;
using ledger::DriverShares;
using rows::DriverPartKind;

CallSite most_frequent(const std::map<CallSite, std::uint64_t>& sites) {
  const auto most =
      std::ranges::max_element(sites, {}, [](const auto& site) { return site.second; });
  return most == sites.end() ? CallSite{} : most->first;
}

// The parts of the peak of the driver's own memory by known cause; the remainder is a part of
// unknown cause, so that the parts sum to the peak.
std::vector<rows::DriverPart> parts_of(const ReportContext& context, const ReportProcess& process,
                                       const ledger::DriverUseOfDevice& use,
                                       const GraphUse& graphs) {
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
  const std::uint64_t local_memory_of_contexts = shares.local_memory_of_new_contexts;
  // Local memory that came with new contexts is part of kLocalMemory, not of kContext.
  add(DriverPartKind::kContext, contexts.bytes - std::min(contexts.bytes, local_memory_of_contexts),
      contexts.first_at);
  add(DriverPartKind::kModules, share_of(DriverCause::kModules).bytes,
      share_of(DriverCause::kModules).first_at);
  add(DriverPartKind::kGraphs, share_of(DriverCause::kGraphs).bytes,
      most_frequent(graphs.instantiated_at));
  add(DriverPartKind::kLocalMemory, shares.local_memory_bytes, {});
  add(DriverPartKind::kHeap, shares.heap_bytes, {});
  add(DriverPartKind::kUnknown, rest, {});
  return parts;
}

rows::DriverMemory row_of(const ReportContext& context, const ReportProcess& process,
                          const ledger::DriverUseOfDevice& use, const GraphUse& graphs) {
  auto row = context.row_on<rows::DriverMemory>(process, use.device);
  row.samples = use.samples;
  row.graphs = {graphs.instantiated, graphs.destroyed, graphs.live_peak};
  if (use.samples == 0) return row;
  // A checkpoint of an older recorder keeps the samples around the peak and the last one, but not
  // the first.
  const bool has_first = process.model().statistics().checkpoint_time == 0 ||
                         process.model().driver_use().is_restored();
  if (has_first) row.first_bytes = use.first_bytes;
  row.peak_bytes = use.peak_bytes;
  row.end_bytes = use.last_bytes;
  row.parts = parts_of(context, process, use, graphs);
  return row;
}

}  // namespace

std::vector<rows::DriverMemory> report_driver_memory(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::DriverMemory>& list) {
    const auto& graphs_of = process.model().graph_use().devices();
    std::set<std::int32_t> ordinals;
    for (const auto& [ordinal, graphs] : graphs_of) ordinals.insert(ordinal);
    for (const auto& use : process.model().driver_use().devices()) ordinals.insert(use.device);
    for (const std::int32_t ordinal : ordinals) {
      const auto graphs = graphs_of.find(ordinal);
      const GraphUse known_graphs = graphs == graphs_of.end() ? GraphUse() : graphs->second;
      const ledger::DriverUseOfDevice* const known = process.model().driver_use().find(ordinal);
      ledger::DriverUseOfDevice use;
      if (known != nullptr) use = *known;
      use.device = ordinal;
      if (ordinal < 0 || (use.samples == 0 && known_graphs.instantiated == 0)) continue;
      list.push_back(row_of(context, process, use, known_graphs));
    }
  };
  return context.gather<rows::DriverMemory>(add_rows);
}

namespace {

struct HandleKey {
  HandleKind kind = HandleKind::kVmm;
  std::int32_t device = kHostDevice;
  Identity identity;
  friend auto operator<=>(const HandleKey&, const HandleKey&) = default;
};

struct HandleTally {
  Tally tally;
  bool knows_bytes = true;      // true if the bytes of each handle are known
  std::uint64_t opened = 0;     // number of handles, the closed ones included; 0 = not known
  std::uint64_t last_time = 0;  // when the last of these handles was opened
  Releases closed;
};

// The code that handles are counted for: the framework for its segments, else the calling site.
Identity opener_of(const ReportContext& context, const ReportProcess& process, const CallSite& site,
                   bool is_segment) {
  return is_segment ? context.identity_of_framework(process, site.stack)
                    : context.identity_of_site(process, site);
}

rows::OpenHandles handle_row(const ReportContext& context, const ReportProcess& process,
                             const HandleKey& key, const HandleTally& sum) {
  auto row = context.row_on<rows::OpenHandles>(process, key.device);
  row.kind = key.kind;
  row.count = sum.tally.count;
  row.opened_count = rows::number_or_none(sum.opened);
  if (sum.knows_bytes) row.bytes = sum.tally.bytes;
  row.origin = origin_of(key.identity);
  row.first_time_ns = process.time_ns(sum.tally.first_time);
  row.last_time_ns = process.time_ns(sum.tally.last_time);
  row.last_opened_ns = process.time_ns(sum.last_time);
  if (row.opened_count) row.closed = releases_row(context, process, &sum.closed);
  row.is_exact = !process.inexact.memory;
  return row;
}

}  // namespace

std::vector<rows::OpenHandles> report_open_handles(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::OpenHandles>& list) {
    std::map<HandleKey, HandleTally> sums;
    for (const OpenHandle& handle : open_handles(process.model().memory())) {
      HandleTally& sum = sums[{handle.kind, handle.device,
                               opener_of(context, process, handle.site, handle.is_segment)}];
      sum.tally.add(handle.bytes, handle.time);
      sum.knows_bytes = sum.knows_bytes && handle.knows_bytes;
    }
    for (const OpenedHandles& opened : opened_handles(process.model().memory())) {
      const auto known = sums.find({opened.kind, opened.device,
                                    opener_of(context, process, opened.site, opened.is_segment)});
      // A site that has no handle open at the end gets no row.
      if (known == sums.end()) continue;
      known->second.opened += opened.count;
      known->second.last_time = std::max(known->second.last_time, opened.last_time);
      known->second.closed.merge(opened.closed);
    }
    for (const auto& [key, sum] : sums) list.push_back(handle_row(context, process, key, sum));
  };
  return context.gather<rows::OpenHandles>(add_rows);
}

}  // namespace gpumemtrace::analyzer
