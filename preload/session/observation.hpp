// SPDX-License-Identifier: Apache-2.0
// What is looked at from time to time and on request: clocks, the driver's numbers, loaded files,
// and what has become known of the process.
#pragma once

#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/session/process_facts.hpp"

namespace gpumemtrace::preload {

class ActivityReader;
class CallGuard;
struct Session;

// The background thread's; it records.
class Observation {
 public:
  Observation(Session& session, ActivityReader& activities) noexcept
      : session_(session), activities_(activities) {}

  // True once a second, and where somebody has asked for it.
  [[nodiscard]] bool is_due() noexcept;
  void observe(const CallGuard& guard) noexcept;
  // The process is about to end, or to become another program.
  void observe_end() noexcept;
  // At the very end, when the driver may have been shut down already.
  void observe_last(const CallGuard& guard) noexcept;

 private:
  void write_losses(const CallGuard& guard) noexcept;

  Session& session_;
  ActivityReader& activities_;
  std::uint64_t last_ns_ = 0;
  bool devices_written_ = false;
  ProcessFacts facts_;
  // Of what is counted for all threads together, what was written and when.
  std::uint64_t stacks_written_ = 0;
  std::uint64_t parts_written_ = 0;
  std::uint64_t losses_since_ticks_ = ticks();
};

}  // namespace gpumemtrace::preload
