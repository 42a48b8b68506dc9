// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/driver_use.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

void DriverUse::add_call(std::int32_t device, DriverCause cause, const ledger::CallSite& site) {
  State& state = devices_[device];
  std::optional<ledger::CallSite>& first = state.calls[static_cast<std::size_t>(cause)];
  if (!first) first = site;
  ++state.call_counts[static_cast<std::size_t>(cause)];
}

void DriverUse::instantiate(std::int32_t device, std::uint64_t executable,
                            const ledger::CallSite& site) {
  restore_live(device, executable, site);
  ++devices_[device].graphs.since_cut;
  add_call(device, DriverCause::kGraphs, site);
}

void DriverUse::restore_live(std::int32_t device, std::uint64_t executable,
                             const ledger::CallSite& site) {
  if (executables_.contains(executable)) destroy_executable(executable);  // its end was not seen
  executables_[executable] = device;
  GraphUse& graphs = devices_[device].graphs;
  ++graphs.instantiated;
  ++graphs.instantiated_at[site];
  graphs.live_peak = std::max(graphs.live_peak, graphs.live());
}

void DriverUse::restore_destroyed(const trace::Totals& totals) {
  GraphUse& graphs = devices_[totals.location].graphs;
  graphs.instantiated += totals.count;
  graphs.destroyed += totals.count;
  if (totals.count != 0) graphs.instantiated_at[ledger::site_of(totals)] += totals.count;
  graphs.live_peak = std::max(graphs.live_peak, totals.largest_bytes);
}

void DriverUse::launch(std::uint64_t executable) {
  const auto found = executables_.find(executable);
  if (found != executables_.end()) ++devices_[found->second].graphs.launches;
}

void DriverUse::destroy_executable(std::uint64_t executable) {
  const auto found = executables_.find(executable);
  if (found == executables_.end()) return;
  ++devices_[found->second].graphs.destroyed;
  executables_.erase(found);
}

// The first limits that are known of a context were there when it was made.
void DriverUse::set_stack_limit(std::int32_t device, trace::ContextId context, std::uint64_t bytes,
                                std::uint64_t threads) {
  constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
  State& state = devices_[device];
  const std::uint64_t asked = bytes * threads;
  const std::uint64_t taken = asked + (0 - asked) % kChunkBytes;
  const auto [known, is_new] = state.local_memory.try_emplace(context, taken);
  state.now.local_memory_bytes += taken - (is_new ? 0 : known->second);
  known->second = taken;
  if (!is_new) return;
  state.now.local_memory_of_new_contexts += taken;
  state.local_memory_at_sample += taken;
}

void DriverUse::end_context(trace::ContextId context) {
  for (auto& [ordinal, device] : devices_) {
    const auto found = device.local_memory.find(context);
    if (found == device.local_memory.end()) continue;
    device.now.local_memory_bytes -= found->second;
    device.local_memory.erase(found);
  }
}

void DriverUse::sample(std::int32_t device, std::uint64_t bytes) {
  State& state = devices_[device];
  if (state.samples++ == 0) state.first_bytes = bytes;
  const std::uint64_t local = state.now.local_memory_bytes;
  const std::uint64_t before = state.last_bytes + local - state.local_memory_at_sample;
  if (bytes > before) share_out(state, bytes - before);
  state.calls = {};
  state.call_counts = {};
  state.last_bytes = bytes;
  state.local_memory_at_sample = local;
  state.last_is_peak = bytes > state.peak_bytes;
  if (!state.last_is_peak) return;
  state.peak_bytes = bytes;
  state.at_peak = state.now;
}

void DriverUse::share_out(State& device, std::uint64_t more_bytes) {
  std::optional<std::size_t> cause;
  for (std::size_t i = 0; i < kDriverCauses; ++i) {
    if (!device.calls[i]) continue;
    if (cause) return;  // nobody knows which of them it was
    cause = i;
  }
  if (!cause) return;
  DriverShare& share = device.now.of_cause[*cause];
  if (share.bytes == 0) share.first_at = *device.calls[*cause];
  share.bytes += more_bytes;
  share.calls += device.call_counts[*cause];
}

void DriverUse::count_in_last_sample(std::int32_t device, std::uint64_t more_bytes) {
  const auto found = devices_.find(device);
  if (found == devices_.end() || found->second.samples == 0) return;
  State& state = found->second;
  const auto less = static_cast<std::int64_t>(state.last_bytes - more_bytes);
  state.last_bytes = less < 0 ? 0 : static_cast<std::uint64_t>(less);
  if (state.samples == 1) state.first_bytes = state.last_bytes;
  if (state.last_is_peak) state.peak_bytes = state.last_bytes;
}

}  // namespace gpumemtrace::analyzer
