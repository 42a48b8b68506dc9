// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/devices.hpp"

#include <string_view>
#include <utility>

namespace gpumemtrace::analyzer {

void Devices::find(std::int32_t ordinal) {
  const auto [found, added] = devices_.try_emplace(ordinal);
  last_ = &found->second;
  if (!added) return;
  last_->ordinal = ordinal;
  last_->driver = &accounts_.account_of(Level::kDriver, ordinal);
  last_->driver->other_snapshots.push_back(&last_->physical_peak);
  accounts_.set_card_log(ordinal, last_->log);
  if (has_managed_) last_->log.add(present_.time, CardEventKind::kManaged);
}

void Devices::describe(const trace::Device& record, std::string_view name) {
  DeviceState& device = state(record.ordinal);
  device.name = name;
  device.total_bytes = record.total_bytes;
  device.uuid_low = record.uuid_low;
  device.uuid_high = record.uuid_high;
  device.pcie_generation = record.pcie_generation;
  device.pcie_width = record.pcie_width;
  device.threads = std::uint64_t{record.multiprocessors} * record.threads_per_multiprocessor;
  device.described = true;
}

void Devices::add_managed() {
  if (has_managed_) return;
  has_managed_ = true;
  for_each([&](DeviceState& device) { device.log.add(present_.time, CardEventKind::kManaged); });
}

bool change_physical(DeviceState& device, const CardLogChange& held, std::uint64_t now) {
  device.physical_bytes = held.physical();
  device.rounding_bytes = held.rounding_bytes;
  device.log.change(now, held);
  if (device.physical_bytes <= device.physical_peak.bytes()) return false;
  device.physical_peak.set(now, device.physical_bytes);
  device.set_peak();
  return true;
}

void restore_physical_peak(DeviceState& device, const trace::Peak& peak, std::uint64_t now) {
  device.log.restore_peak(now, {peak.bytes, peak.peak_time});
  device.at_peak = ledger::parts_of(peak);
  device.restore_peak(peak);
}

void restore_curves(DeviceState& device, PrefixOfCard prefix, std::uint64_t now) {
  if (device.prefix || device.summary) return;  // a damaged trace may give curves twice
  device.prefix = std::move(prefix);
  for (PrefixOfCard::Point& point : device.prefix->points) {
    device.driver->other_snapshots.push_back(&point.holders);
  }
  device.log.add(now, CardEventKind::kPrefix);
}

// For a checkpoint that has no curves: a summary of its peak and samples takes their place.
void restore_curves(DeviceState& device, std::uint64_t now) {
  if (device.log.restored_peaks().empty() || device.prefix || device.summary) return;
  SummaryOfCard& summary = device.summary.emplace();
  summary.parts = device.at_peak;
  summary.holders = device.physical_peak;
  summary.most_in_use = device.most_in_use;
  summary.most_of_process = device.most_of_process;
  summary.nearest = device.before_peak.time != 0 ? device.before_peak : device.after_peak;
  summary.last = device.last_sample;
  device.driver->other_snapshots.push_back(&summary.holders);
  device.log.add(now, CardEventKind::kSummary);
}

}  // namespace gpumemtrace::analyzer
