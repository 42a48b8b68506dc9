// SPDX-License-Identifier: Apache-2.0
// The bytes that the driver took of a device for one process beyond what its calls asked for, and
// the calls between two samples.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// Calls after which the driver takes memory by itself.
enum class DriverCause : std::uint8_t { kContext, kModules, kGraphs };
inline constexpr std::size_t kDriverCauses = 3;

// A part is known only if calls of one cause came between two samples.
struct DriverShare {
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
  ledger::CallSite first_at;  // of the calls
};

struct DriverShares {
  std::array<DriverShare, kDriverCauses> of_cause;
  std::uint64_t local_memory_bytes = 0;
  std::uint64_t local_memory_of_new_contexts = 0;  // the part of it that came with them
};

struct GraphUse {
  std::uint64_t instantiated = 0;
  std::uint64_t destroyed = 0;
  std::uint64_t live_peak = 0;
  std::uint64_t launches = 0;
  std::uint64_t since_cut = 0;  // of the instantiated ones, those behind a checkpoint's cut
  std::map<ledger::CallSite, std::uint64_t> instantiated_at;

  [[nodiscard]] std::uint64_t live() const { return instantiated - destroyed; }
};

struct DriverUseOfDevice {
  std::uint64_t samples = 0;
  std::uint64_t first_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t last_bytes = 0;
  DriverShares at_peak;
  GraphUse graphs;
};

// - add_call() and set_stack_limit() between the samples; the order is that of the records.
class DriverUse {
 public:
  void add_call(std::int32_t device, DriverCause cause, const ledger::CallSite& site);
  void instantiate(std::int32_t device, std::uint64_t executable, const ledger::CallSite& site);
  // Restores a checkpoint's graphs: one that is alive at its cut, and those destroyed before it.
  void restore_live(std::int32_t device, std::uint64_t executable, const ledger::CallSite& site);
  void restore_destroyed(const trace::Totals& totals);
  void launch(std::uint64_t executable);
  void destroy_executable(std::uint64_t executable);
  // Bytes of each thread that can run on the device, in each context.
  void set_stack_limit(std::int32_t device, trace::ContextId context, std::uint64_t bytes,
                       std::uint64_t threads);
  void end_context(trace::ContextId context);
  // The driver's number for the process, without the bytes of its calls.
  void sample(std::int32_t device, std::uint64_t bytes);
  // The last sample had counted bytes that only now enter the calls' sum.
  void count_in_last_sample(std::int32_t device, std::uint64_t more_bytes);

  struct State : DriverUseOfDevice {
    DriverShares now;
    // Since the last sample: the first call of each cause.
    std::array<std::optional<ledger::CallSite>, kDriverCauses> calls;
    std::array<std::uint64_t, kDriverCauses> call_counts{};
    std::uint64_t local_memory_at_sample = 0;
    bool last_is_peak = false;
    std::map<trace::ContextId, std::uint64_t> local_memory;
  };

  // By ordinal.
  [[nodiscard]] const std::map<std::int32_t, State>& devices() const { return devices_; }

 private:
  static void share_out(State& device, std::uint64_t more_bytes);

  std::map<std::int32_t, State> devices_;
  std::map<std::uint64_t, std::int32_t> executables_;  // live ones, and their devices
};

}  // namespace gpumemtrace::analyzer
