// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <atomic>

#include "preload/base/message.hpp"
#include "preload/base/sections.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/lifecycle.hpp"
#include "preload/session/session.hpp"

namespace gpumemtrace::preload {
namespace {

constinit bool control_survives_fork = false;
// True once this process has started a session; forked children inherit the value.
[[GPUMEMTRACE_START_DATA]] constinit bool has_started = false;
constinit std::atomic<RequestedState> requested_state = RequestedState::kNone;

// Runs on the one thread that won the exchange in start_once(); other threads wait in attach().
void start() noexcept {
  has_started = true;
  tracking::reset_if_forked();
  // A thread that requests a recording or a pause after this load finds kStarting, waits for the
  // start, and acts on the session.
  const RequestedState wanted = requested_state.load();
  if (control_survives_fork) warn_not_recording("the kernel is too old (MADV_WIPEONFORK)");
  // mutant: failure_not_told
  if (control_survives_fork || !start_session(wanted)) control.session.store(kOff);
}

// Starts the session if no thread has done so; true on the thread that does. All other threads wait
// for it: so no signal handler can jump out of start(), and the thread is not cancelled. Slow work
// is the background thread's, and goes on without this thread.
bool start_once() noexcept {
  const SignalsBlocked signals_blocked(~(kSignalsOfLibc | kSignalsOfFaults));
  const CancellationOff cancellation_off;
  std::uint32_t not_started = kNotStarted;
  // mutant: two_starts
  const bool is_first = control.session.compare_exchange_strong(not_started, kStarting);
  if (is_first) start();
  return is_first;
}

// The function behind attach_thread(). Waits for a start of the session that is under way, unless
// it is slow: then counts the call as missed.
bool attach(bool may_start) noexcept {
  const ErrnoKeeper errno_keeper;
  bool is_first = false;
  if (control.session.load() == kNotStarted) {  // mutant: request_read_early
    if (!may_start) return false;
    is_first = start_once();
  }
  const std::uint32_t session = wait_for_start();
  if (session == kStarting && may_start) control.missed.fetch_add(1);
  if (is_first && session_exists()) wait_for_background_thread();
  if (session < kFirstSessionId) return false;
  if (thread_state.session == session) return true;
  if (!acquire_writer(the_session().pool, take_writer(the_session().pool))) {
    count_unrecorded(1);
    return false;
  }
  if (const std::uint32_t missed = control.missed.exchange(0); missed != 0) {
    count_unrecorded(missed);
  }
  return_writer_at_end();
  return true;
}

// Replaces the static page of `control` by a page that the kernel empties in a forked child. Runs
// before any thread could read `control`.
[[gnu::constructor]] void library_begins() {
  remember_standard_error();
  install_attach_thread(attach);
  void* page = mmap(&control, sizeof control, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (page != &control || madvise(page, sizeof control, MADV_WIPEONFORK) != 0) {
    control_survives_fork = true;
  }
}

// Ends the session. A process that never used CUDA touches no other page of the library here.
[[gnu::destructor, GPUMEMTRACE_START_CODE]] void library_destructor() {
  if (has_started) library_ends();
}

}  // namespace

void request_recording(const CallGuard& guard, bool wanted) noexcept {
  // mutant: request_not_kept
  requested_state.store(wanted ? RequestedState::kRecord : RequestedState::kPause);
  if (!wanted) {
    (void)pause_recording(guard);
  } else if (resume_recording(guard)) {
    request_sample();
  }
}

}  // namespace gpumemtrace::preload
