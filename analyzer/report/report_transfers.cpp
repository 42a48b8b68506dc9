// SPDX-License-Identifier: Apache-2.0
// Copies and memory sets by kind, and copies by line; transfers.hotspots[] is in
// report_hotspots.cpp.
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_copies.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The number of lines with rows of their own; all other lines are summed in one row.
constexpr std::size_t kMaxSites = 200;

// Copies by function and kind: copies of different callers that look alike to the user are one row.
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

rows::CopySpread spread_of(const ReportProcess& process, const TransferRow& row) {
  rows::CopySpread spread;
  if (row.count != 0) spread.mean_bytes = row.bytes / row.count;
  if (row.gpu.records != 0) {
    spread.min_gpu_ns = process.duration_ns(row.gpu.record_ticks.least);
    spread.mean_gpu_ns = process.duration_ns(row.gpu.ticks / row.gpu.records);
    spread.max_gpu_ns = process.duration_ns(row.gpu.record_ticks.most);
  }
  // A checkpoint keeps only sums: the least and the most of single copies are not known.
  if (row.has_restored_sums) return spread;
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

// The fields that rows on copies and on sets share.
template <class Row>
void set_sums(Row& row, const ReportProcess& process, const TransferRow& sum, const GpuView& gpu) {
  row.destination_memory = sum.key.destination;
  row.is_asynchronous = sum.key.asynchronous;
  row.count = sum.count;
  row.bytes = sum.bytes;
  row.host_time_ns = process.duration_ns(sum.host_ticks);
  row.gpu_time_ns = gpu.time_ns;
  row.is_exact = !process.inexact.copies;
}

template <class Row>
void set_copies(Row& row, const ReportProcess& process, const TransferRow& sum,
                const GpuView& gpu) {
  set_sums(row, process, sum, gpu);
  row.direction = sum.key.direction;
  row.source_memory = sum.key.source;
  row.bandwidth_bytes_per_s = rounded(gpu.bytes_per_s, 1);
  row.link_share = rounded(gpu.link_share(), 1e4);
  row.spread = spread_of(process, sum);
}

rows::Copies copies_row(const ReportContext& context, const ReportProcess& process,
                        const std::string& function, const TransferRow& sum) {
  const GpuView gpu = gpu_view(process, sum);
  auto row = context.row_on<rows::Copies>(process, sum.key.device);
  set_copies(row, process, sum, gpu);
  row.api = function;
  row.is_in_graph = sum.key.in_graph;
  row.joined_count = sum.gpu.calls;
  row.joined_bytes = sum.gpu.bytes;
  row.gpu_busy_ns = gpu.busy_ns;
  row.overlapped_ns = gpu.overlapped_ns;
  return row;
}

rows::Sets sets_row(const ReportContext& context, const ReportProcess& process,
                    const std::string& function, const TransferRow& sum) {
  auto row = context.row_on<rows::Sets>(process, sum.key.device);
  set_sums(row, process, sum, gpu_view(process, sum));
  row.api = function;
  row.is_in_graph = sum.key.in_graph;
  row.joined_count = sum.gpu.calls;
  return row;
}

rows::CopySite site_row(const ReportContext& context, const ReportProcess& process,
                        const SiteCopiesKey& key, const SiteCopies& copies) {
  auto row = context.row_on<rows::CopySite>(process, key.kind.device);
  set_copies(row, process, copies.sum, gpu_view(process, copies.sum));
  row.api = rows::text_or_none(key.identity.api);
  row.origin = origin_with_stack(key.identity, copies.stack);
  return row;
}

// The sites that copied most, and the remainder as `other`, so that the rows sum to by_kind[].
void add_sites(const ReportContext& context, const ReportProcess& process,
               std::vector<rows::CopySite>& list) {
  CopiesBySite copies;
  for (const TransferRow& row : process.model().transfers().rows()) {
    if (!row.key.is_set) add_to_site(copies, context, process, row, false);
  }
  const auto bytes_of = [](const SiteCopies& site) { return site.sum.bytes; };
  std::size_t row_count = 0;
  TransferRow rest;
  for (const auto* site : largest_first(copies, bytes_of)) {
    if (row_count++ < kMaxSites) {
      list.push_back(site_row(context, process, site->first, site->second));
    } else {
      add(rest, site->second.sum);
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
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Transfers>& list) {
    rows::Transfers& own = list.emplace_back();
    for (const auto& [key, sum] : copies_by_function(process)) {
      if (sum.key.is_set) {
        own.sets.push_back(sets_row(context, process, key.first, sum));
      } else {
        own.by_kind.push_back(copies_row(context, process, key.first, sum));
      }
    }
    add_sites(context, process, own.sites);
  };
  rows::Transfers transfers;
  for (rows::Transfers& own : context.gather<rows::Transfers>(add_rows)) {
    append(std::move(own.by_kind), transfers.by_kind);
    append(std::move(own.sets), transfers.sets);
    append(std::move(own.sites), transfers.sites);
  }
  transfers.streams = report_streams(context);
  return transfers;
}

}  // namespace gpumemtrace::analyzer
