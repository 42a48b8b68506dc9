// Handles that were never released.
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
  bool knows_bytes = true;  // of each
};

Json handle_row(const ReportContext& context, const ReportProcess& process, const HandleKey& key,
                const HandleTally& sum) {
  Json row = {{"process", process.id},
              {"device", context.device_id(process, key.device)},
              {"kind", name_of(key.kind)},
              {"count", sum.tally.count},
              {"bytes", sum.knows_bytes ? Json(sum.tally.bytes) : Json(nullptr)},
              {"owner", owner_json(key.identity)},
              {"site", site_json(key.identity)},
              {"stack", stack_json(key.identity)},
              {"first_time_ns", process.time_ns(sum.tally.first_time)}};
  mark_inexact(row, process.inexact.memory);
  return row;
}

}  // namespace

Json report_open_handles(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    std::map<HandleKey, HandleTally> sums;
    for (const OpenHandle& handle : process.model().open_handles()) {
      const Identity identity = handle.is_segment
                                    ? context.identity_of_framework(process, handle.site.stack)
                                    : context.identity_of_site(process, handle.site);
      HandleTally& sum = sums[{handle.kind, handle.device, identity}];
      sum.tally.add(handle.bytes, handle.time);
      sum.knows_bytes = sum.knows_bytes && handle.knows_bytes;
    }
    for (const auto& [key, sum] : sums) rows.push_back(handle_row(context, process, key, sum));
  }
  return sorted_rows(std::move(rows), "bytes");
}

}  // namespace gpumemtrace::analyzer
