// Copies and memory sets by kind; transfers.hotspots[] is filled by report_hotspots.cpp.
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
  }
  return rows;
}

Json copy_row(const ReportContext& context, const ReportProcess& process,
              const std::string& function, const TransferRow& row) {
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
          {"gpu_time_ns", nullptr},
          {"bandwidth_bytes_per_s", nullptr},
          {"link_share", nullptr}};
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
          {"gpu_time_ns", nullptr}};
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
          {"unjoined", nullptr}};
}

}  // namespace gpumemtrace::analyzer
