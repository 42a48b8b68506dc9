// SPDX-License-Identifier: Apache-2.0
#include "preload/stacks/waiting_watch.hpp"

#include <time.h>

#include "preload/base/clock.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/stacks/stacks.hpp"
#include "preload/stacks/waiting_request.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kLookPeriodNs = 200'000;
constexpr std::uint64_t kRepeatNs = 1'000'000;

}  // namespace

void WaitingWatch::refresh(const CallGuard& guard) noexcept {
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (now_ns - last_look_ns_ < kLookPeriodNs) return;
  last_look_ns_ = now_ns;
  waiting_look_begins();
  if (!python_stacks_off().empty()) return;
  look_.look(stack_depth());
  forget_all_but_found();
  for (const python::WaitingThread& thread : look_.found()) {
    const std::uint32_t stack = waiting_stack(guard, thread);
    Known& last = known(thread.thread_id);
    if (stack == 0 || (last.stack == stack && now_ns - last.written_ns <= kRepeatNs)) continue;
    last.stack = stack;
    last.written_ns = now_ns;
    (void)write_event<trace::WaitingStack>(guard, [&](trace::WaitingStack& record) {
      record.thread_id = last.thread_id;
      record.stack = stack;
    });
  }
}

void WaitingWatch::forget_all_but_found() noexcept {
  for (Known& last : known_) {
    bool still_waits = false;
    for (const python::WaitingThread& thread : look_.found()) {
      still_waits = still_waits || thread.thread_id == last.thread_id;
    }
    if (!still_waits) last.stack = 0;
  }
}

// The thread's, else the place of the one that was written longest ago.
WaitingWatch::Known& WaitingWatch::known(std::uint64_t thread_id) noexcept {
  Known* oldest = &known_[0];
  for (Known& last : known_) {
    if (last.thread_id == thread_id) return last;
    if (last.written_ns < oldest->written_ns) oldest = &last;
  }
  *oldest = {thread_id, 0, 0};
  return *oldest;
}

}  // namespace gpumemtrace::preload
