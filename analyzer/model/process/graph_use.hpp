// SPDX-License-Identifier: Apache-2.0
// Counts of executable graphs: instantiated, destroyed, alive at once; and their call sites.
#pragma once

#include <cstdint>
#include <map>

#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct GraphUse {
  std::uint64_t instantiated = 0;
  std::uint64_t destroyed = 0;
  std::uint64_t live_peak = 0;
  std::uint64_t launches = 0;
  std::uint64_t since_cut = 0;  // instantiated after the checkpoint; without one, all
  std::map<ledger::CallSite, std::uint64_t> instantiated_at;

  [[nodiscard]] std::uint64_t live() const { return instantiated - destroyed; }
};

class GraphsOfDevices {
 public:
  void instantiate(std::int32_t device, std::uint64_t executable, const ledger::CallSite& site);
  // Restore graphs from a checkpoint: one that is live at its end, and those destroyed before.
  void restore_live(std::int32_t device, std::uint64_t executable, const ledger::CallSite& site);
  void restore_destroyed(const trace::Totals& totals);
  void launch(std::uint64_t executable);
  void destroy_executable(std::uint64_t executable);

  // Counts by ordinal of the device.
  [[nodiscard]] const std::map<std::int32_t, GraphUse>& devices() const { return devices_; }

 private:
  std::map<std::int32_t, GraphUse> devices_;
  std::map<std::uint64_t, std::int32_t> executables_;  // devices of the live executable graphs
};

}  // namespace gpumemtrace::analyzer
