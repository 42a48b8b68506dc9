// SPDX-License-Identifier: Apache-2.0
// The devices as one process sees them: the bytes that it holds of each, and the driver's samples.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/card_curves.hpp"
#include "trace/ledger/device_samples.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// Physical memory of one device over all processes of the job.
struct SharedDevice {
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time = 0;  // in the model time of the process that set the peak
  std::uint32_t peak_process = 0;
  CardCurves curves;
};

using ledger::DriverSample;

struct DeviceState : ledger::DeviceSamples {
  std::int32_t ordinal = 0;
  std::string name;
  std::uint64_t total_bytes = 0;
  std::uint64_t uuid_low = 0;
  std::uint64_t uuid_high = 0;
  std::uint32_t pcie_generation = 0;  // 0 = not known
  std::uint32_t pcie_width = 0;
  std::uint64_t threads = 0;  // that it can run at once; 0 = not known
  bool described = false;     // a Device record was seen

  Account* driver = nullptr;
  std::uint64_t physical_bytes = 0;
  std::uint64_t rounding_bytes = 0;  // what the driver added to that
  PeakSnapshot physical_peak;        // watches driver memory
  Parts at_peak;
  std::uint64_t most_in_use = 0;      // at samples before a checkpoint's cut
  std::uint64_t most_of_process = 0;  // as above
  bool peak_is_restored = false;   // before a checkpoint's cut: what others held then is not known
  bool curves_are_whole = true;    // nothing of the card's curves is lost before a checkpoint's cut
  SharedDevice own;                // until the physical device is known
  SharedDevice* shared = nullptr;  // nullptr: `own`
  std::size_t member = 0;          // this process's number in the card's curves

  [[nodiscard]] SharedDevice& total() { return shared == nullptr ? own : *shared; }
  [[nodiscard]] const SharedDevice& total() const { return shared == nullptr ? own : *shared; }
};

// Devices are created on demand; references stay valid.
class Devices {
 public:
  // `parts_now(ordinal)` gives the present parts of the process's physical bytes on a device.
  Devices(Accounts& accounts, PresentRecord& present, std::uint32_t process,
          std::function<Parts(std::int32_t)> parts_now)
      : accounts_(accounts),
        present_(present),
        process_(process),
        parts_now_(std::move(parts_now)) {}

  [[nodiscard]] DeviceState& state(std::int32_t ordinal) {
    if (last_ == nullptr || last_->ordinal != ordinal) find(ordinal);
    return *last_;
  }
  void describe(const trace::Device& record, std::string_view name);
  // The process allocates managed memory, which can be on any device.
  void add_managed();
  // A record of the process comes, which may change what it holds on any card.
  void touch_cards() {
    for_each([](DeviceState& device) { device.total().curves.touch(device.member); });
  }
  [[nodiscard]] const std::map<std::int32_t, DeviceState>& devices() const { return devices_; }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [ordinal, device] : devices_) visit(device);
  }

 private:
  void find(std::int32_t ordinal);

  Accounts& accounts_;
  PresentRecord& present_;
  std::uint32_t process_;
  std::function<Parts(std::int32_t)> parts_now_;
  std::map<std::int32_t, DeviceState> devices_;
  DeviceState* last_ = nullptr;
  bool has_managed_ = false;
};

// The process's physical bytes on the device are now `physical`, and `rounding` of the driver's
// rounding. True if that is a new peak of the process: the caller then fills `at_peak`.
[[nodiscard]] bool change_physical(DeviceState& device, std::uint64_t physical,
                                   std::uint64_t rounding, std::uint32_t process,
                                   std::uint64_t now);
// The process's highest point before a checkpoint's cut.
void restore_physical_peak(DeviceState& device, const trace::Peak& peak, std::uint32_t process);
// After a checkpoint that has samples and no curves: its numbers of the device are complete.
void restore_curves(DeviceState& device);
// From now on the device's bytes also count in `shared`. `process_id`: the system's.
void join(DeviceState& device, SharedDevice& shared, std::uint32_t process,
          std::uint32_t process_id, std::uint64_t now);

}  // namespace gpumemtrace::analyzer
