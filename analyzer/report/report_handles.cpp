// SPDX-License-Identifier: Apache-2.0
// Handles that were never released.
#include <algorithm>

#include "analyzer/model/memory/handles.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct HandleKey {
  HandleKind kind = HandleKind::kVmm;
  std::int32_t device = kHostDevice;
  Identity identity;
  friend auto operator<=>(const HandleKey&, const HandleKey&) = default;
};

struct HandleTally {
  Tally tally;
  bool knows_bytes = true;      // of each
  std::uint64_t opened = 0;     // the closed ones included; 0 = not known
  std::uint64_t last_time = 0;  // of the last one that was opened
  Releases closed;
};

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
  std::vector<rows::OpenHandles> list;
  for (const ReportProcess& process : context.processes()) {
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
      if (known == sums.end()) continue;
      known->second.opened += opened.count;
      known->second.last_time = std::max(known->second.last_time, opened.last_time);
      known->second.closed.merge(opened.closed);
    }
    for (const auto& [key, sum] : sums) list.push_back(handle_row(context, process, key, sum));
  }
  sort_rows(list, &rows::OpenHandles::bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
