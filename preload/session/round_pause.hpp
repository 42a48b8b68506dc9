// SPDX-License-Identifier: Apache-2.0
// How long the background thread sleeps between its rounds.
#pragma once

#include <cstdint>

#include "preload/ring/control.hpp"

namespace gpumemtrace::preload {

class RoundPause {
 public:
  // Before a round's work: who asks for a round from now on ends its pause.
  void round_begins() noexcept { wakes_ = background_wake.count(); }
  // Short after a round with work, then longer and longer.
  void sleep(bool was_busy) noexcept {
    const bool is_longest = pause_ns_ * 2 >= kIdleNs;
    pause_ns_ = was_busy ? kBusyNs : (is_longest ? kIdleNs : pause_ns_ * 2);
    background_wake.pause(wakes_, pause_ns_);
  }

 private:
  static constexpr long kBusyNs = 500'000;
  static constexpr long kIdleNs = 10'000'000;

  std::uint32_t wakes_ = 0;
  long pause_ns_ = kBusyNs;
};

}  // namespace gpumemtrace::preload
