// SPDX-License-Identifier: Apache-2.0
// Losses that are counted for all threads together, as records.
#pragma once

#include <cstdint>

#include "preload/base/clock.hpp"

namespace gpumemtrace::preload {

class CallGuard;
struct Session;

// The background thread's; it records.
class CommonLosses {
 public:
  // Writes what was lost since the last time.
  void write_new(const CallGuard& guard, const Session& session) noexcept;

 private:
  std::uint64_t stacks_written_ = 0;
  std::uint64_t parts_written_ = 0;
  std::uint64_t since_ticks_ = ticks();
};

}  // namespace gpumemtrace::preload
