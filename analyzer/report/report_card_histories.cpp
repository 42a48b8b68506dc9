// SPDX-License-Identifier: Apache-2.0
// The history of each process on each card (GPU), as rows of the report, and the cards' peaks.
#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/cards/card_results.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Numbers the owners in one process's history on a card: holders of memory (groups of allocations)
// with the same owner share one row of owners[].
class Owners {
 public:
  Owners(const ReportContext& context, const ReportProcess& process,
         std::vector<rows::CardOwner>& list)
      : context_(context), process_(process), list_(list) {}

  std::uint64_t row_of(std::uint32_t group, bool segment) {
    const auto [found, added] = by_holder_.try_emplace({group, segment});
    if (!added) return found->second;
    rows::CardOwner owner{segment, {}};
    if (!segment) {
      owner.owner = rows::text_or_none(context_.identity_of(process_, {group, false}).owner);
    }
    const auto [row, is_new] = by_owner_.try_emplace(owner, list_.size());
    if (is_new) list_.push_back(std::move(owner));
    return found->second = row->second;
  }
  [[nodiscard]] std::vector<rows::CardOwnersBytes> at(const PeakSnapshot& moment,
                                                      std::int32_t device) {
    std::vector<rows::CardOwnersBytes> bytes;
    for (const auto& [holder, tally] :
         process_.model().holders().at(moment, Level::kDriver, device)) {
      bytes.push_back({row_of(holder.group, holder.segment), tally.bytes});
    }
    return bytes;
  }

 private:
  const ReportContext& context_;
  const ReportProcess& process_;
  std::vector<rows::CardOwner>& list_;
  std::map<std::pair<std::uint32_t, bool>, std::uint64_t> by_holder_;
  std::map<rows::CardOwner, std::uint64_t> by_owner_;
};

// The changes of each owner's bytes: one row for each change and owner.
std::vector<rows::CardOwnersChange> owners_changes(const ReportProcess& process,
                                                   const DeviceState& device, Owners& owners) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> sums;
  const auto add = [&](const GroupBytesChange& row) {
    sums[{row.change, owners.row_of(row.group, row.segment)}] += row.bytes;
  };
  for (const GroupBytesChange& row : device.log.holders()) add(row);
  const ProcessMemory& memory = process.model().memory();
  for (const LiveAllocation& entry : memory.live_now(Level::kDriver, device.ordinal)) {
    add(device.log.holder_of_live(entry));
  }
  std::vector<rows::CardOwnersChange> list;
  for (const auto& [key, bytes] : sums) {
    if (bytes != 0) list.push_back({key.first, key.second, static_cast<std::int64_t>(bytes)});
  }
  return list;
}

rows::CardPrefix prefix_row(const ReportProcess& process, const DeviceState& device,
                            Owners& owners) {
  rows::CardPrefix row{device.prefix->state, {}, {}};
  for (const trace::CardCurve& curve : device.prefix->curves) row.curves.push_back({curve});
  for (const auto& [point, holders] : device.prefix->points) {
    row.points.push_back(
        {point, process.time_ns(point.point_time), owners.at(holders, device.ordinal)});
  }
  return row;
}

rows::CardSummarySample sample_row(const DriverSample& sample) {
  return {ledger::in_use_of(sample), sample.process_bytes, sample.other_bytes,
          sample.physical_bytes};
}

rows::CardSummary summary_row(const ReportProcess& process, const DeviceState& device,
                              Owners& owners) {
  const SummaryOfCard& summary = *device.summary;
  rows::CardSummary row;
  row.highest.time_ns = process.time_ns(summary.holders.time());
  row.highest.called_bytes = summary.parts.physical();
  row.highest.framework_allocated = summary.parts.framework_allocated;
  row.highest.pool_used = summary.parts.pool_used;
  row.highest.pool_reserved = summary.parts.pool_reserved;
  row.highest.allocated = summary.parts.driver;
  row.highest.owners = owners.at(summary.holders, device.ordinal);
  row.total_bytes = device.total_bytes;
  row.most_in_use = summary.most_in_use;
  row.most_of_process = summary.most_of_process;
  row.nearest = sample_row(summary.nearest);
  row.last = sample_row(summary.last);
  return row;
}

void add_events(const ReportProcess& process, const CardLog& log, rows::CardHistory& row) {
  for (const CardLogEvent& event : log.events()) {
    row.events.push_back({process.known_time_ns(event.time), event.what});
  }
  for (const CardLogChange& change : log.changes()) {
    row.changes.push_back({change.allocated_bytes, change.pool_reserved, change.rounding_bytes,
                           change.unknown_bytes});
  }
  for (const trace::MemorySample& sample : log.samples()) {
    row.samples.push_back({sample});
  }
  for (const trace::ProcessSample& listed : log.listed_processes()) {
    row.listed_processes.push_back({listed});
  }
  row.counted_late = log.counted_late();
  for (const CardLogUse& use : log.uses()) {
    row.uses.push_back({process.known_time_ns(use.time), use.framework_allocated, use.pool_used});
  }
  row.uses_are_left_out = log.uses_are_left_out();
  for (const CardLogPeak& peak : log.restored_peaks()) {
    row.restored_peaks.push_back({peak.bytes, process.known_time_ns(peak.time)});
  }
}

bool allocates_managed(const ReportProcess& process) {
  const std::vector<UsageRow>& rows = process.model().accounts().rows();
  return std::ranges::any_of(
      rows, [](const UsageRow& row) { return row.kind == Kind::kManaged && row.allocations != 0; });
}

rows::CardHistory history_row(const ReportContext& context, const ReportProcess& process,
                              const DeviceState& device) {
  rows::CardHistory row = context.row_on<rows::CardHistory>(process, device.ordinal);
  if (device.has_uuid()) row.process_id = process.process->file().header().process_id;
  row.total_bytes = device.total_bytes;
  row.has_source = process.process->preview().source.has_value();
  row.is_inexact = process.inexact.memory;
  row.allocates_managed = allocates_managed(process);
  row.has_ended = process.process->has_ended();
  row.last_ns = process.time_ns(process.model().statistics().last_time);
  add_events(process, device.log, row);
  Owners owners(context, process, row.owners);
  row.owners_changes = owners_changes(process, device, owners);
  if (device.prefix) row.prefix = prefix_row(process, device, owners);
  if (device.summary) row.summary = summary_row(process, device, owners);
  return row;
}

}  // namespace

std::vector<rows::CardHistory> report_card_histories(const ReportContext& context) {
  return context.gather<rows::CardHistory>(
      [&](const ReportProcess& process, std::vector<rows::CardHistory>& list) {
        for (const auto& [ordinal, device] : process.model().memory().devices.devices()) {
          if (ordinal >= 0) list.push_back(history_row(context, process, device));
        }
      });
}

void fill_cards(const std::vector<rows::CardHistory>& histories, rows::Report& report) {
  std::map<rows::OptionalText, std::vector<const rows::CardHistory*>> by_device;
  for (const rows::CardHistory& history : histories) {
    by_device[history.device].push_back(&history);
  }
  std::vector<CardResults> cards(report.devices.size());
  in_parallel(cards.size(),
              [&](std::size_t i) { cards[i] = card_results(by_device.at(report.devices[i].id)); });
  for (std::size_t i = 0; i < cards.size(); ++i) {
    report.devices[i].physical_peak = cards[i].physical_peak;
    append(std::move(cards[i].peaks), report.card_peaks);
  }
}

rows::OptionalText card_peaks_reason(const rows::Report& sections) {
  if (sections.devices.empty()) return "No memory of a device was recorded.";
  const auto is_of_source = [&](const rows::Device& device) {
    const auto trace =
        std::ranges::find(sections.traces, device.seen_as.front().process, &rows::Trace::process);
    return trace != sections.traces.end() && trace->source.has_value();
  };
  if (std::ranges::none_of(sections.devices, is_of_source)) return std::nullopt;
  return "A snapshot of PyTorch has PyTorch's part of a card alone.";
}

}  // namespace gpumemtrace::analyzer
