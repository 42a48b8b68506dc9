// SPDX-License-Identifier: Apache-2.0
// Handles that were never released.
#include <algorithm>

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

Json handle_row(const ReportContext& context, const ReportProcess& process, const HandleKey& key,
                const HandleTally& sum) {
  Json row = {{"process", process.id},
              {"device", context.device_id(process, key.device)},
              {"kind", name_of(key.kind)},
              {"count", sum.tally.count},
              {"opened_count", sum.opened == 0 ? Json(nullptr) : Json(sum.opened)},
              {"bytes", sum.knows_bytes ? Json(sum.tally.bytes) : Json(nullptr)},
              {"owner", owner_json(key.identity)},
              {"site", site_json(key.identity)},
              {"stack", stack_json(key.identity)},
              {"first_time_ns", process.time_ns(sum.tally.first_time)},
              {"last_time_ns", process.time_ns(sum.tally.last_time)},
              {"last_opened_ns", process.time_ns(sum.last_time)}};
  add_releases(row, "closed", context, process, sum.opened == 0 ? nullptr : &sum.closed);
  mark_inexact(row, process.inexact.memory);
  return row;
}

}  // namespace

Json report_open_handles(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    std::map<HandleKey, HandleTally> sums;
    for (const OpenHandle& handle : process.model().open_handles()) {
      HandleTally& sum = sums[{handle.kind, handle.device,
                               opener_of(context, process, handle.site, handle.is_segment)}];
      sum.tally.add(handle.bytes, handle.time);
      sum.knows_bytes = sum.knows_bytes && handle.knows_bytes;
    }
    for (const OpenedHandles& opened : process.model().opened_handles()) {
      const auto known = sums.find({opened.kind, opened.device,
                                    opener_of(context, process, opened.site, opened.is_segment)});
      if (known == sums.end()) continue;
      known->second.opened += opened.count;
      known->second.last_time = std::max(known->second.last_time, opened.last_time);
      known->second.closed.merge(opened.closed);
    }
    for (const auto& [key, sum] : sums) rows.push_back(handle_row(context, process, key, sum));
  }
  return sorted_rows(std::move(rows), "bytes");
}

}  // namespace gpumemtrace::analyzer
