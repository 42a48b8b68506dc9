// SPDX-License-Identifier: Apache-2.0
// Copies and memory sets by kind; transfers.hotspots[] is in report_hotspots.cpp.
#include <cmath>

#include "analyzer/report/link.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Those of different callers that read the same to the user are one.
using CopiesByFunction = std::map<std::pair<std::string, TransferKey>, TransferRow>;

CopiesByFunction copies_by_function(const ReportProcess& process) {
  CopiesByFunction copies;
  for (const TransferRow& row : process.model().transfers().rows()) {
    TransferKey key = row.key;
    const std::string function(process.model().dictionary().function_of(key.site));
    key.site = CallSite{};
    TransferRow& sum = copies[{function, key}];
    sum.key = key;
    sum.count += row.count;
    sum.bytes += row.bytes;
    sum.host_ticks += row.host_ticks;
    sum.gpu.add(row.gpu);
  }
  return copies;
}

// What CUPTI said of the joined ones among the row's calls; no value where it said nothing.
struct GpuColumns {
  rows::OptionalNumber time_ns;
  rows::OptionalNumber busy_ns;
  rows::OptionalNumber overlapped_ns;
  std::optional<double> bytes_per_s;
  std::optional<double> link_share;
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

rows::Copies copies_row(const ReportContext& context, const ReportProcess& process,
                        const std::string& function, const TransferRow& sum) {
  const GpuColumns gpu = gpu_columns(process, sum);
  rows::Copies row;
  row.process = process.id;
  row.device = context.device_id(process, sum.key.device);
  row.direction = sum.key.direction;
  row.source_memory = sum.key.source;
  row.destination_memory = sum.key.destination;
  row.api = function;
  row.is_asynchronous = sum.key.asynchronous;
  row.count = sum.count;
  row.bytes = sum.bytes;
  row.host_time_ns = process.duration_ns(sum.host_ticks);
  row.gpu_time_ns = gpu.time_ns;
  row.bandwidth_bytes_per_s = gpu.bytes_per_s;
  row.link_share = gpu.link_share;
  row.is_in_graph = sum.key.in_graph;
  row.joined_count = sum.gpu.calls;
  row.joined_bytes = sum.gpu.bytes;
  row.gpu_busy_ns = gpu.busy_ns;
  row.overlapped_ns = gpu.overlapped_ns;
  row.is_exact = !process.inexact.copies;
  return row;
}

rows::Sets sets_row(const ReportContext& context, const ReportProcess& process,
                    const std::string& function, const TransferRow& sum) {
  rows::Sets row;
  row.process = process.id;
  row.device = context.device_id(process, sum.key.device);
  row.destination_memory = sum.key.destination;
  row.api = function;
  row.is_asynchronous = sum.key.asynchronous;
  row.count = sum.count;
  row.bytes = sum.bytes;
  row.host_time_ns = process.duration_ns(sum.host_ticks);
  row.gpu_time_ns = gpu_columns(process, sum).time_ns;
  row.is_in_graph = sum.key.in_graph;
  row.joined_count = sum.gpu.calls;
  row.is_exact = !process.inexact.copies;
  return row;
}

}  // namespace

rows::Transfers report_transfers(const ReportContext& context) {
  rows::Transfers transfers;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [key, sum] : copies_by_function(process)) {
      if (sum.key.is_set) {
        transfers.sets.push_back(sets_row(context, process, key.first, sum));
      } else {
        transfers.by_kind.push_back(copies_row(context, process, key.first, sum));
      }
    }
  }
  sort_rows(transfers.by_kind, &rows::Copies::bytes);
  sort_rows(transfers.sets, &rows::Sets::bytes);
  transfers.unjoined = count_unjoined(context);
  transfers.streams = report_streams(context);
  return transfers;
}

}  // namespace gpumemtrace::analyzer
