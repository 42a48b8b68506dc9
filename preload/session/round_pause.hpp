// SPDX-License-Identifier: Apache-2.0
// How long the background thread sleeps between its rounds.
#pragma once

#include <cstdint>

#include "preload/ring/control.hpp"

namespace gpumemtrace::preload {

class RoundPause {
 public:
  static constexpr std::uint64_t kLongestNs = 100'000'000;  // `gpumemtrace ctl` waits as long

  // Before a round's work: who asks for a round from now on ends its pause.
  void round_begins() noexcept { wakes_ = background_wake.count(); }

  // `has_work` is asked when everybody knows that they have to wake the thread; where it is true,
  // there is no pause.
  template <class HasWork>
  void until_woken(HasWork&& has_work, std::uint64_t longest_ns = kLongestNs) noexcept {
    const auto ns = static_cast<long>(longest_ns);
    background_wake.announce(true);
    has_work() ? background_wake.announce(false) : background_wake.sleep(wakes_, ns);
  }

 private:
  std::uint32_t wakes_ = 0;
};

}  // namespace gpumemtrace::preload
