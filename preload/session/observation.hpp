// SPDX-License-Identifier: Apache-2.0
// What is looked at from time to time and on request: clocks, the driver's numbers, loaded files,
// and what has become known of the process.
#pragma once

#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/session/process_facts.hpp"
#include "preload/session/sample_schedule.hpp"

namespace gpumemtrace::preload {

class ActivityReader;
class CallGuard;
struct Session;

// The background thread's; it records.
class Observation {
 public:
  Observation(Session& session, ActivityReader& activities) noexcept
      : session_(session), activities_(activities) {}

  // Looks at what is due: everything once a second and where somebody has asked for it, the
  // driver's numbers alone where it may have taken memory by itself.
  enum class Due : std::uint8_t { kNothing, kSamples, kEverything };
  [[nodiscard]] Due due() noexcept;
  void observe(const CallGuard& guard) noexcept;
  void sample(const CallGuard& guard) noexcept;
  // How long nothing is due, `most_ns` at most.
  [[nodiscard]] std::uint64_t pause_ns(std::uint64_t most_ns) const noexcept;
  // The process is about to end, or to become another program.
  void observe_end(const CallGuard& guard) noexcept;
  // At the very end, when the driver may have been shut down already.
  void observe_last(const CallGuard& guard) noexcept;

 private:
  void look_around(const CallGuard& guard) noexcept;
  void write_losses(const CallGuard& guard) noexcept;

  Session& session_;
  ActivityReader& activities_;
  std::uint64_t last_ns_ = 0;
  SampleSchedule schedule_;
  bool devices_written_ = false;
  ProcessFacts facts_;
  // Of what is counted for all threads together, what was written and when.
  std::uint64_t stacks_written_ = 0;
  std::uint64_t parts_written_ = 0;
  std::uint64_t losses_since_ticks_ = ticks();
};

}  // namespace gpumemtrace::preload
