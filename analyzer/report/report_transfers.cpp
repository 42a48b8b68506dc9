// SPDX-License-Identifier: Apache-2.0
// Copies and memory sets by kind; transfers.hotspots[] is filled by report_hotspots.cpp.
#include <cmath>

#include "analyzer/report/link.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Rows of different callers that read the same to the user are one.
using Rows = std::map<std::pair<std::string, TransferKey>, TransferRow>;

Rows rows_by_function(const ReportProcess& process) {
  Rows rows;
  for (const TransferRow& row : process.model().transfers().rows()) {
    TransferKey key = row.key;
    const std::string function(process.model().dictionary().function_of(key.site));
    key.site = CallSite{};
    TransferRow& sum = rows[{function, key}];
    sum.key = key;
    sum.count += row.count;
    sum.bytes += row.bytes;
    sum.host_ticks += row.host_ticks;
    sum.gpu.add(row.gpu);
  }
  return rows;
}

// What CUPTI said of the joined ones among the row's calls; null where it said nothing.
struct GpuColumns {
  Json time_ns = nullptr;
  Json busy_ns = nullptr;
  Json overlapped_ns = nullptr;
  Json bytes_per_s = nullptr;
  Json link_share = nullptr;
};

GpuColumns gpu_columns(const ReportProcess& process, const TransferRow& row) {
  const Clock& clock = process.process->clock();
  const ProcessModel& model = process.model();
  GpuColumns columns;
  if (row.gpu.records == 0) return columns;
  const std::uint64_t busy_ns = clock.duration_ns(row.gpu.busy_ticks);
  columns.time_ns = clock.duration_ns(row.gpu.ticks);
  columns.busy_ns = busy_ns;
  if (model.activity().has_kernels()) {
    columns.overlapped_ns = clock.duration_ns(row.gpu.overlapped_ticks);
  }
  if (busy_ns == 0) return columns;
  const double bytes_per_s =
      static_cast<double>(row.gpu.bytes) * 1e9 / static_cast<double>(busy_ns);
  columns.bytes_per_s = std::round(bytes_per_s);
  const auto device = model.devices().devices().find(row.key.device);
  if (device == model.devices().devices().end()) return columns;
  const auto link = link_bytes_per_second(device->second, row.key.direction);
  // Faster than PCI Express: it was another link.
  if (link && bytes_per_s <= *link)
    columns.link_share = std::round(bytes_per_s / *link * 1e4) / 1e4;
  return columns;
}

Json copy_row(const ReportContext& context, const ReportProcess& process,
              const std::string& function, const TransferRow& row) {
  const GpuColumns gpu = gpu_columns(process, row);
  return {{"process", process.id},
          {"device", context.device_id(process, row.key.device)},
          {"direction", name_of(row.key.direction)},
          {"source_memory", name_of(row.key.source)},
          {"destination_memory", name_of(row.key.destination)},
          {"api", function},
          {"asynchronous", row.key.asynchronous},
          {"count", row.count},
          {"bytes", row.bytes},
          {"host_time_ns", process.process->clock().duration_ns(row.host_ticks)},
          {"gpu_time_ns", gpu.time_ns},
          {"bandwidth_bytes_per_s", gpu.bytes_per_s},
          {"link_share", gpu.link_share},
          {"in_graph", row.key.in_graph},
          {"joined_count", row.gpu.calls},
          {"joined_bytes", row.gpu.bytes},
          {"gpu_busy_ns", gpu.busy_ns},
          {"overlapped_ns", gpu.overlapped_ns}};
}

Json set_row(const ReportContext& context, const ReportProcess& process,
             const std::string& function, const TransferRow& row) {
  return {{"process", process.id},
          {"device", context.device_id(process, row.key.device)},
          {"destination_memory", name_of(row.key.destination)},
          {"api", function},
          {"asynchronous", row.key.asynchronous},
          {"count", row.count},
          {"bytes", row.bytes},
          {"host_time_ns", process.process->clock().duration_ns(row.host_ticks)},
          {"gpu_time_ns", gpu_columns(process, row).time_ns},
          {"in_graph", row.key.in_graph},
          {"joined_count", row.gpu.calls}};
}

}  // namespace

Json report_transfers(const ReportContext& context) {
  std::vector<Json> copies;
  std::vector<Json> sets;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [key, row] : rows_by_function(process)) {
      Json json = row.key.is_set ? set_row(context, process, key.first, row)
                                 : copy_row(context, process, key.first, row);
      mark_inexact(json, process.inexact.copies);
      (row.key.is_set ? sets : copies).push_back(std::move(json));
    }
  }
  return {{"by_kind", sorted_rows(std::move(copies), "bytes")},
          {"hotspots", Json::array()},
          {"sets", sorted_rows(std::move(sets), "bytes")},
          {"unjoined", count_unjoined(context)},
          {"streams", report_streams(context)}};
}

}  // namespace gpumemtrace::analyzer
