// SPDX-License-Identifier: Apache-2.0
#include "preload/session/attach.hpp"

#include <sys/mman.h>

#include <atomic>

#include "preload/base/errno_keeper.hpp"
#include "preload/base/message.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/session.hpp"
#include "preload/session/session_start.hpp"
#include "preload/session/session_state.hpp"
#include "preload/session/thread_end.hpp"

namespace gpumemtrace::preload {
namespace {

constinit bool control_is_wiped_on_fork = false;
constinit std::atomic<RequestedState> requested = RequestedState::kNone;

// The one thread that won the exchange comes here; others wait in attach().
void start() noexcept {
  tracking::reset_if_forked();
  // Whoever requests something after this was read finds kStarting, waits, and acts on the session.
  const RequestedState wanted = requested.load();
  if (!control_is_wiped_on_fork) say_not_recording("the kernel is too old (MADV_WIPEONFORK)");
  if (!control_is_wiped_on_fork || !start_session(wanted)) {
    control.session.store(kOff);
    return;
  }
  // Fails where the background thread has had to give up.
  std::uint32_t starting = kStarting;
  const bool paused = the_session().config.start_paused;
  control.session.compare_exchange_strong(starting, paused ? kPaused : the_session().id());
  background_wake.wake();  // what it says of the devices is waited for
}

// What a thread too many wanted to record; of which class is not known here.
void count_without_writer() noexcept {
  const auto index = static_cast<std::size_t>(trace::DropClass::kOther);
  // Relaxed: a counter, nothing is ordered by it.
  the_session().ring.header().dropped[index].fetch_add(1, std::memory_order_relaxed);
}

bool attach(bool may_start) noexcept {
  const ErrnoKeeper errno_keeper;
  std::uint32_t session = control.session.load();
  if (session == kNotStarted) {
    if (!may_start) return false;
    if (control.session.compare_exchange_strong(session, kStarting)) start();
  }
  session = settled_session();
  if (session < kFirstSessionId) return false;
  if (thread_state.session == session) return true;
  if (!acquire_writer(the_session().pool, take_writer(the_session().pool))) {
    count_without_writer();
    return false;
  }
  return_writer_at_end();
  return true;
}

// Replaces the static page by one that the kernel empties in a forked child. Runs before any
// thread could read it.
[[gnu::constructor]] void library_begins() {
  remember_standard_error();
  install_attach_thread(attach);
  void* page = mmap(&control, sizeof control, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  control_is_wiped_on_fork =
      page == &control && madvise(page, sizeof control, MADV_WIPEONFORK) == 0;
}

[[gnu::destructor]] void library_destructor() { library_ends(); }

}  // namespace

void request_recording(const CallGuard& guard, bool wanted) noexcept {
  requested.store(wanted ? RequestedState::kRecord : RequestedState::kPause);
  if (!wanted) {
    (void)pause_recording(guard);
  } else if (resume_recording(guard)) {
    request_sample();
  }
}

}  // namespace gpumemtrace::preload
