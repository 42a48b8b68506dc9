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

  // `has_work` is asked when everybody knows that they have to wake the thread; where it is true,
  // there is no pause.
  //
  // Somebody waits in Python for a thread that works: the wait may be another one at any moment.
  template <class HasWork>
  void while_someone_waits(HasWork&& has_work) noexcept {
    sleep(Pause::kShort, 1'000'000, has_work);
  }
  // Python's rounds have to end in time.
  template <class HasWork>
  void while_python_is_walked(HasWork&& has_work) noexcept {
    sleep(Pause::kShort, 10'000'000, has_work);
  }
  // `gpumemtrace ctl` waits as long for its answer.
  template <class HasWork>
  void until_woken(HasWork&& has_work) noexcept {
    sleep(Pause::kLong, 50'000'000, has_work);
  }

 private:
  template <class HasWork>
  void sleep(Pause pause, long ns, HasWork& has_work) noexcept {
    background_wake.announce(pause);
    has_work() ? background_wake.announce(Pause::kNone) : background_wake.sleep(wakes_, ns);
  }

  std::uint32_t wakes_ = 0;
};

}  // namespace gpumemtrace::preload
