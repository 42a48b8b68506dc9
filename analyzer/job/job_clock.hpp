// SPDX-License-Identifier: Apache-2.0
// Puts the clocks of a job's machines on one time axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/base/clock.hpp"

namespace gpumemtrace::analyzer {

// The time at which a process's recording began, on the clocks of its machine.
struct ClockStart {
  std::string boot;  // equal for processes that share the monotonic clock
  std::int64_t monotonic_ns = 0;
  std::int64_t realtime_ns = 0;
};

// Limits a time from a file to about sixty years, more than any clock of a machine shows.
[[nodiscard]] std::int64_t believable_ns(std::uint64_t ns);
// The start of the process with this clock. `start_realtime_ns`, from the trace's header, is used
// if the clock's first calibration has no time of day.
[[nodiscard]] ClockStart start_of(const std::string& boot, const Clock& clock,
                                  std::uint64_t start_realtime_ns);
// The id of the machine's boot; if that is not known, a name that no other process has.
[[nodiscard]] std::string boot_of(const std::string& boot_id, const std::string& path);

// Returns for each process the time of its monotonic clock at which the job began. Processes of one
// boot share the monotonic clock, which no administrator moves; machines are joined by the time of
// day.
[[nodiscard]] std::vector<std::int64_t> job_origins(const std::vector<ClockStart>& starts);

}  // namespace gpumemtrace::analyzer
