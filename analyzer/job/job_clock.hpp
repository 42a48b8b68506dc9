// SPDX-License-Identifier: Apache-2.0
// Puts the clocks of a job's machines on one axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/base/clock.hpp"

namespace gpumemtrace::analyzer {

// A process's first tick on its machine's clocks.
struct ClockStart {
  std::string boot;  // the same for processes that share the monotonic clock
  std::int64_t monotonic_ns = 0;
  std::int64_t realtime_ns = 0;
};

// A time that no clock of a machine has is not believed.
[[nodiscard]] std::int64_t believable_ns(std::uint64_t ns);
// `start_realtime_ns` is that of the trace's header.
[[nodiscard]] ClockStart start_of(const std::string& boot, const Clock& clock,
                                  std::uint64_t start_realtime_ns);
// The id of the machine's boot, else a name that no other process has.
[[nodiscard]] std::string boot_of(const std::string& boot_id, const std::string& path);

// Processes of one boot share the monotonic clock, which no administrator moves; machines are
// joined by the time of day. For each process the monotonic time at which the job began.
[[nodiscard]] std::vector<std::int64_t> job_origins(const std::vector<ClockStart>& starts);

}  // namespace gpumemtrace::analyzer
