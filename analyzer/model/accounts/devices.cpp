// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/devices.hpp"

#include <string_view>

namespace gpumemtrace::analyzer {
namespace {

void set_peak(SharedDevice& device, std::uint64_t bytes, std::uint64_t time,
              std::uint32_t process) {
  device.peak_bytes = bytes;
  device.peak_time = time;
  device.peak_process = process;
}

}  // namespace

void Devices::find(std::int32_t ordinal) {
  const auto [found, added] = devices_.try_emplace(ordinal);
  last_ = &found->second;
  if (!added) return;
  last_->ordinal = ordinal;
  last_->driver = &accounts_.account_of(Level::kDriver, ordinal);
  last_->driver->watchers.push_back(&last_->physical_peak);
  CardMember member;
  member.process = process_;
  member.ordinal = ordinal;
  member.present = &present_;
  member.driver = last_->driver;
  member.parts_now = parts_now_;
  member.has_managed = has_managed_;
  last_->member = last_->own.curves.add(member);
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
  for_each([](DeviceState& device) { device.total().curves.add_managed(device.member); });
}

bool change_physical(DeviceState& device, std::uint64_t physical, std::uint64_t rounding,
                     std::uint32_t process, std::uint64_t now) {
  SharedDevice& total = device.total();
  total.bytes += physical - device.physical_bytes;
  device.physical_bytes = physical;
  device.rounding_bytes = rounding;
  total.curves.change(device.member, physical + rounding, rounding);
  if (total.bytes > total.peak_bytes) set_peak(total, total.bytes, now, process);
  if (physical <= device.physical_peak.bytes()) return false;
  device.physical_peak.set(now, physical);
  device.set_peak();
  return true;
}

void restore_physical_peak(DeviceState& device, const trace::Peak& peak, std::uint32_t process) {
  device.peak_is_restored = true;
  SharedDevice& total = device.total();
  if (peak.bytes >= total.peak_bytes) set_peak(total, peak.bytes, peak.peak_time, process);
  device.at_peak = ledger::parts_of(peak);
  device.restore_peak(peak);
}

void restore_curves(DeviceState& device) {
  if (!device.peak_is_restored) return;
  device.curves_are_whole = false;
  const bool has_before = device.before_peak.time != 0;
  GoneOnCard gone;
  gone.held.parts = device.at_peak;
  gone.held.holders = device.physical_peak;
  gone.time = device.physical_peak.time();
  gone.total_bytes = device.total_bytes;
  gone.most_in_use = device.most_in_use;
  gone.most_of_process = device.most_of_process;
  gone.nearest = has_before ? device.before_peak : device.after_peak;
  gone.last = device.last_sample;
  device.total().curves.restore_from_samples(device.member, gone);
}

void join(DeviceState& device, SharedDevice& shared, std::uint32_t process,
          std::uint32_t process_id, std::uint64_t now) {
  if (device.shared == &shared) return;
  CardCurves& former = device.total().curves;
  CardMember member = former.members()[device.member];
  member.process_id = process_id;
  former.end(device.member);
  device.shared = &shared;
  shared.bytes += device.physical_bytes;
  const bool own_was_higher = device.own.peak_bytes > shared.peak_bytes;
  if (own_was_higher) set_peak(shared, device.own.peak_bytes, device.own.peak_time, process);
  if (shared.bytes > shared.peak_bytes) set_peak(shared, shared.bytes, now, process);
  device.member = shared.curves.add(member);
}

}  // namespace gpumemtrace::analyzer
