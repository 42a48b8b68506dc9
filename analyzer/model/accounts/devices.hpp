// SPDX-License-Identifier: Apache-2.0
// The devices as one process sees them: the bytes that it holds of each, and the driver's samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/card_log.hpp"
#include "trace/ledger/device_samples.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::DriverSample;
using ledger::Parts;

// The memory curves of a card before a checkpoint, from this process's trace alone.
struct PrefixOfCard {
  struct Point {
    trace::CardPoint point;
    PeakSnapshot holders;
  };
  trace::CardState state;
  std::vector<trace::CardCurve> curves;
  std::vector<Point> points;
};
// The process's peak on a card and the samples before a checkpoint that has no curves.
struct SummaryOfCard {
  Parts parts;
  PeakSnapshot holders;
  std::uint64_t most_in_use = 0;  // most bytes in use on the card, at any of the samples
  std::uint64_t most_of_process = 0;
  DriverSample nearest;  // sample that is nearest to the peak
  DriverSample last;
};

struct DeviceState : ledger::DeviceSamples {
  std::int32_t ordinal = 0;
  std::string name;
  std::uint64_t total_bytes = 0;
  std::uint64_t uuid_low = 0;
  std::uint64_t uuid_high = 0;
  std::uint32_t pcie_generation = 0;  // generation of PCI Express; 0 = not known
  std::uint32_t pcie_width = 0;
  std::uint64_t threads = 0;  // most threads that the device runs at once; 0 = not known
  bool described = false;     // a Device record described the device

  Account* driver = nullptr;
  std::uint64_t physical_bytes = 0;
  std::uint64_t rounding_bytes = 0;  // bytes that the driver added to the sizes asked for
  PeakSnapshot physical_peak;        // memory live at the peak; gets the frees of driver memory
  Parts at_peak;
  // most bytes in use on the device at samples before a checkpoint
  std::uint64_t most_in_use = 0;
  std::uint64_t most_of_process = 0;  // most bytes of the process at the same samples
  CardLog log;
  // At most one of `prefix` and `summary` is set. Their snapshots `holders` get the frees of driver
  // memory.
  std::optional<PrefixOfCard> prefix;
  std::optional<SummaryOfCard> summary;

  [[nodiscard]] bool has_uuid() const { return uuid_low != 0 || uuid_high != 0; }
};

// All devices of a process. A device is created when it is first asked for; references stay valid.
class Devices {
 public:
  // `accounts` and `present` are borrowed.
  Devices(Accounts& accounts, const PresentRecord& present)
      : accounts_(accounts), present_(present) {}

  [[nodiscard]] DeviceState& state(std::int32_t ordinal) {
    if (last_ == nullptr || last_->ordinal != ordinal) find(ordinal);
    return *last_;
  }
  void describe(const trace::Device& record, std::string_view name);
  // Notes that the process allocates managed memory, which can be on any device.
  void add_managed();
  [[nodiscard]] const std::map<std::int32_t, DeviceState>& devices() const { return devices_; }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [ordinal, device] : devices_) visit(device);
  }

 private:
  void find(std::int32_t ordinal);

  Accounts& accounts_;
  const PresentRecord& present_;
  std::map<std::int32_t, DeviceState> devices_;
  DeviceState* last_ = nullptr;
  bool has_managed_ = false;
};

// Sets the process's physical bytes on the device to those of `held`. Returns true if they are a
// new peak of the process: the caller then sets DeviceState::at_peak.
[[nodiscard]] bool change_physical(DeviceState& device, const CardLogChange& held,
                                   std::uint64_t now);
// Sets the process's peak before a checkpoint, from the checkpoint's record read at the time `now`.
void restore_physical_peak(DeviceState& device, const trace::Peak& peak, std::uint64_t now);
// Called at the time `now`, after all records of a checkpoint were read: stores the curves of the
// checkpoint or, without curves, its peak and samples in the device.
void restore_curves(DeviceState& device, PrefixOfCard prefix, std::uint64_t now);
void restore_curves(DeviceState& device, std::uint64_t now);

}  // namespace gpumemtrace::analyzer
