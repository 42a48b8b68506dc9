// SPDX-License-Identifier: Apache-2.0
// Copies and memory sets by kind, and copies by line; transfers.hotspots[] is in
// report_hotspots.cpp.
#include <algorithm>
#include <cmath>

#include "analyzer/report/link.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Of single lines, the rest in one row.
constexpr std::size_t kMaxSites = 200;

// What the sections count of copies that are one row to the reader.
void add(TransferRow& sum, const TransferRow& more) {
  sum.count += more.count;
  sum.bytes += more.bytes;
  sum.host_ticks += more.host_ticks;
  sum.timed_calls += more.timed_calls;
  sum.sizes.add(more.sizes);
  sum.call_ticks.add(more.call_ticks);
  sum.single_ones_are_gone = sum.single_ones_are_gone || more.single_ones_are_gone;
  sum.gpu.add(more.gpu);
}

// Those of different callers that read the same to the user are one.
using CopiesByFunction = std::map<std::pair<std::string, TransferKey>, TransferRow>;

CopiesByFunction copies_by_function(const ReportProcess& process) {
  CopiesByFunction copies;
  for (const TransferRow& row : process.model().transfers().rows()) {
    TransferKey key = row.key;
    const std::string function(process.model().program().dictionary().function_of(key.site));
    key.site = CallSite{};
    TransferRow& sum = copies[{function, key}];
    sum.key = key;
    add(sum, row);
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
  const auto device = model.memory().devices.devices().find(row.key.device);
  if (device == model.memory().devices.devices().end()) return columns;
  const auto link = link_bytes_per_second(device->second, row.key.direction);
  // Faster than PCI Express: it was another link.
  if (link && bytes_per_s <= *link)
    columns.link_share = std::round(bytes_per_s / *link * 1e4) / 1e4;
  return columns;
}

rows::CopySpread spread_of(const ReportProcess& process, const TransferRow& row) {
  rows::CopySpread spread;
  if (row.count != 0) spread.mean_bytes = row.bytes / row.count;
  if (row.gpu.records != 0) {
    spread.min_gpu_ns = process.duration_ns(row.gpu.record_ticks.least);
    spread.mean_gpu_ns = process.duration_ns(row.gpu.ticks / row.gpu.records);
    spread.max_gpu_ns = process.duration_ns(row.gpu.record_ticks.most);
  }
  if (row.single_ones_are_gone) return spread;
  if (row.count != 0) {
    spread.min_bytes = row.sizes.least;
    spread.max_bytes = row.sizes.most;
  }
  if (row.timed_calls != 0) {
    spread.min_host_ns = process.duration_ns(row.call_ticks.least);
    spread.mean_host_ns = process.duration_ns(row.host_ticks / row.timed_calls);
    spread.max_host_ns = process.duration_ns(row.call_ticks.most);
  }
  return spread;
}

rows::Copies copies_row(const ReportContext& context, const ReportProcess& process,
                        const std::string& function, const TransferRow& sum) {
  const GpuColumns gpu = gpu_columns(process, sum);
  auto row = context.row_on<rows::Copies>(process, sum.key.device);
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
  row.spread = spread_of(process, sum);
  row.is_exact = !process.inexact.copies;
  return row;
}

rows::Sets sets_row(const ReportContext& context, const ReportProcess& process,
                    const std::string& function, const TransferRow& sum) {
  auto row = context.row_on<rows::Sets>(process, sum.key.device);
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

// Copies that look alike to the reader: one line, one kind.
struct CopySiteKey {
  Identity identity;
  TransferKey kind;  // without its site
  friend auto operator<=>(const CopySiteKey&, const CopySiteKey&) = default;
};

struct CopySiteSums {
  TransferRow sum;
  std::string stack;  // of the row that copied most
  std::uint64_t most_bytes = 0;
};

std::map<CopySiteKey, CopySiteSums> copies_by_site(const ReportContext& context,
                                                   const ReportProcess& process) {
  std::map<CopySiteKey, CopySiteSums> copies;
  for (const TransferRow& row : process.model().transfers().rows()) {
    if (row.key.is_set) continue;
    CopySiteKey key{context.identity_of_site(process, row.key.site), row.key};
    const std::string stack = take_stack(key.identity);
    key.identity.api = process.model().program().dictionary().function_of(row.key.site);
    key.kind.site = CallSite{};
    CopySiteSums& sums = copies[key];
    if (sums.sum.count == 0 || row.bytes > sums.most_bytes) {
      sums.most_bytes = row.bytes;
      sums.stack = stack;
    }
    sums.sum.key = key.kind;
    add(sums.sum, row);
  }
  return copies;
}

rows::CopySite site_row(const ReportContext& context, const ReportProcess& process,
                        const CopySiteKey& key, const CopySiteSums& sums) {
  const GpuColumns gpu = gpu_columns(process, sums.sum);
  auto row = context.row_on<rows::CopySite>(process, key.kind.device);
  row.direction = key.kind.direction;
  row.source_memory = key.kind.source;
  row.destination_memory = key.kind.destination;
  row.api = rows::text_or_none(key.identity.api);
  row.is_asynchronous = key.kind.asynchronous;
  row.count = sums.sum.count;
  row.bytes = sums.sum.bytes;
  row.host_time_ns = process.duration_ns(sums.sum.host_ticks);
  row.gpu_time_ns = gpu.time_ns;
  row.bandwidth_bytes_per_s = gpu.bytes_per_s;
  row.link_share = gpu.link_share;
  row.spread = spread_of(process, sums.sum);
  row.origin = origin_with_stack(key.identity, sums.stack);
  row.is_exact = !process.inexact.copies;
  return row;
}

// The sites that copied most, and the remainder as `other`, so that the rows sum to by_kind[].
void add_sites(const ReportContext& context, const ReportProcess& process,
               std::vector<rows::CopySite>& list) {
  const auto copies = copies_by_site(context, process);
  std::vector<const std::pair<const CopySiteKey, CopySiteSums>*> sorted;
  for (const auto& site : copies) sorted.push_back(&site);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->second.sum.bytes > b->second.sum.bytes;
  });
  TransferRow rest;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i < kMaxSites) {
      list.push_back(site_row(context, process, sorted[i]->first, sorted[i]->second));
    } else {
      add(rest, sorted[i]->second.sum);
    }
  }
  if (rest.count == 0) return;
  rows::CopySite row;
  row.process = process.id;
  row.count = rest.count;
  row.bytes = rest.bytes;
  row.host_time_ns = process.duration_ns(rest.host_ticks);
  row.spread = spread_of(process, rest);
  row.origin.owner = "other";
  row.is_exact = !process.inexact.copies;
  list.push_back(std::move(row));
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
    add_sites(context, process, transfers.sites);
  }
  sort_rows(transfers.by_kind, &rows::Copies::bytes);
  sort_rows(transfers.sets, &rows::Sets::bytes);
  transfers.unjoined = count_unjoined(context);
  transfers.streams = report_streams(context);
  return transfers;
}

}  // namespace gpumemtrace::analyzer
