// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/graph_use.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

void GraphsOfDevices::instantiate(std::int32_t device, std::uint64_t executable,
                                  const ledger::CallSite& site) {
  restore_live(device, executable, site);
  ++devices_[device].since_cut;
}

void GraphsOfDevices::restore_live(std::int32_t device, std::uint64_t executable,
                                   const ledger::CallSite& site) {
  // The handle is in use again: the earlier graph's destruction was not recorded.
  if (executables_.contains(executable)) destroy_executable(executable);
  executables_[executable] = device;
  GraphUse& graphs = devices_[device];
  ++graphs.instantiated;
  ++graphs.instantiated_at[site];
  graphs.live_peak = std::max(graphs.live_peak, graphs.live());
}

// In totals of graphs, `location` is the device and `largest_bytes` the most graphs live at once.
void GraphsOfDevices::restore_destroyed(const trace::Totals& totals) {
  GraphUse& graphs = devices_[totals.location];
  graphs.instantiated += totals.count;
  graphs.destroyed += totals.count;
  if (totals.count != 0) graphs.instantiated_at[ledger::site_of(totals)] += totals.count;
  graphs.live_peak = std::max(graphs.live_peak, totals.largest_bytes);
}

void GraphsOfDevices::launch(std::uint64_t executable) {
  const auto found = executables_.find(executable);
  if (found != executables_.end()) ++devices_[found->second].launches;
}

void GraphsOfDevices::destroy_executable(std::uint64_t executable) {
  const auto found = executables_.find(executable);
  if (found == executables_.end()) return;
  ++devices_[found->second].destroyed;
  executables_.erase(found);
}

}  // namespace gpumemtrace::analyzer
