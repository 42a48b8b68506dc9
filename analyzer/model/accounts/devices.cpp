// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/devices.hpp"

#include <string_view>

namespace gpumemtrace::analyzer {

void Devices::find(std::int32_t ordinal) {
  const auto [found, added] = devices_.try_emplace(ordinal);
  last_ = &found->second;
  if (!added) return;
  last_->ordinal = ordinal;
  last_->driver = &accounts_.account_of(Level::kDriver, ordinal);
  last_->driver->watchers.push_back(&last_->physical_peak);
}

void Devices::describe(const trace::Device& record, std::string_view name) {
  DeviceState& device = state(record.ordinal);
  device.name = name;
  device.total_bytes = record.total_bytes;
  device.uuid_low = record.uuid_low;
  device.uuid_high = record.uuid_high;
  device.pcie_generation = record.pcie_generation;
  device.pcie_width = record.pcie_width;
  device.described = true;
}

bool change_physical(DeviceState& device, std::uint64_t physical, std::uint32_t process,
                     std::uint64_t now) {
  SharedDevice& total = device.total();
  total.bytes += physical - device.physical_bytes;
  device.physical_bytes = physical;
  if (total.bytes > total.peak_bytes) {
    total.peak_bytes = total.bytes;
    total.peak_time = now;
    total.peak_process = process;
  }
  if (physical <= device.physical_peak.bytes()) return false;
  device.physical_peak.set(now, physical);
  device.set_peak();
  return true;
}

void restore_physical_peak(DeviceState& device, const trace::Peak& peak, std::uint32_t process) {
  device.peak_is_restored = true;
  SharedDevice& total = device.total();
  if (peak.bytes >= total.peak_bytes) {
    total.peak_bytes = peak.bytes;
    total.peak_time = peak.peak_time;
    total.peak_process = process;
  }
  device.at_peak = ledger::parts_of(peak);
  device.restore_peak(peak);
}

void join(DeviceState& device, SharedDevice& shared, std::uint32_t process, std::uint64_t now) {
  if (device.shared == &shared) return;
  device.shared = &shared;
  shared.bytes += device.physical_bytes;
  const bool own_was_higher = device.own.peak_bytes > shared.peak_bytes;
  if (own_was_higher) shared = {shared.bytes, device.own.peak_bytes, device.own.peak_time, process};
  if (shared.bytes > shared.peak_bytes) shared = {shared.bytes, shared.bytes, now, process};
}

}  // namespace gpumemtrace::analyzer
