// SPDX-License-Identifier: Apache-2.0
#include "preload/session/session.hpp"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "preload/base/message.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/base/wait.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/context_records.hpp"

namespace gpumemtrace::preload {

bool attach_background_thread() noexcept {
  return thread_state.session == the_session().id() ||
         acquire_writer(the_session().pool, kBackgroundWriter);
}

void request_sample() noexcept {
  the_session().sample_wanted.store(true);
  background_wake.wake_if_asleep();
}

void driver_memory_changed() noexcept {
  if (!session_exists()) return;
  std::atomic<bool>& changed = the_session().driver_memory_changed;
  if (!changed.load() && !changed.exchange(true)) background_wake.wake_if_asleep();
}

namespace {

// Not inlined: the message's buffer must not lie on the stack of every thread that records.
[[gnu::noinline]] void warn_slow_start() noexcept {
  message(Line() << "the trace's folder does not answer. The program goes on; it is recorded from "
                    "when the folder answers.");
}

}  // namespace

std::uint32_t wait_for_start() noexcept {
  const auto is_settled = [] {
    // mutant: start_not_awaited
    return control.session.load() != kStarting || control.start_is_slow.load();
  };
  // Waits about two seconds. The limit is a number of checks, not a time, so that a busy machine
  // has longer.
  wait_until(is_settled, 12'000, 100);
  const std::uint32_t session = control.session.load();
  if (session == kStarting && !control.start_is_slow.exchange(true)) warn_slow_start();
  return session;
}

void count_unrecorded(std::uint32_t calls) noexcept {
  const auto index = static_cast<std::size_t>(trace::DropClass::kOther);
  // Relaxed: a counter, nothing is ordered by it.
  the_session().ring.header().dropped[index].fetch_add(calls, std::memory_order_relaxed);
}

// `control.missed` counts the calls that threads made without a record because the start was slow.
void start_ends(bool has_session) noexcept {
  if (!has_session) return control.session.store(kOff);
  const Session& session = the_session();
  if (const std::uint32_t missed = control.missed.exchange(0); missed != 0) {
    count_unrecorded(missed);
  }
  // mutant: start_without_release
  control.session.store(session.config.start_paused ? kPaused : session.id());
}

bool write_mark(trace::MarkKind kind, std::string_view name) noexcept {
  trace::Mark record;
  record.mark = kind;
  return write_record(record, name);
}

// The mark of the pause is written first, so that it is in the trace before any record is left out.
bool pause_recording(const CallGuard&) noexcept {
  if (!recording(/*may_start=*/false)) return false;
  (void)write_mark(trace::MarkKind::kStopped, {});  // mutant: paused_before_told
  Session& session = the_session();
  std::uint32_t recording_id = session.id();
  return control.session.compare_exchange_strong(recording_id, kPaused);  // mutant: pause_overrules
}

// Writes all contexts again: the pause may have left out the records of new ones.
bool resume_recording(const CallGuard&) noexcept {
  std::uint32_t paused = wait_for_start();  // mutant: resumed_too_early
  if (paused != kPaused) return false;
  // mutant: resume_overrules
  if (!control.session.compare_exchange_strong(paused, the_session().id())) return false;
  if (!recording(/*may_start=*/false)) return false;
  (void)write_mark(trace::MarkKind::kStarted, {});
  const std::uint32_t contexts = tracking::context_count();
  for (std::uint32_t id = 1; id <= contexts; ++id) record_context(trace::ContextId{id});
  return true;
}

void end_recording(const CallGuard&, const char* reason) noexcept {
  if (control.session.load() == kOff) return;
  // If the trace file cannot be written any more, readers find this mark in the ring.
  (void)write_mark(trace::MarkKind::kDisabled, reason);
  control.session.store(kOff);
  message(Line() << "recording stopped: " << reason << ". The program goes on; the trace "
                 << the_session().path.text() << " ends here.");
}

namespace {

// Asks the background thread to pack everything that is committed, and waits for it. Returns at
// once if no background thread empties the ring.
void flush_and_wait() noexcept {
  Session& session = the_session();
  if (!session.pool.is_emptied.load()) return;
  const std::uint32_t wanted = session.flush_requested.fetch_add(1) + 1;
  background_wake.wake();
  const auto is_answered = [&] {
    return !session.pool.is_emptied.load() || session.flush_answered.load() >= wanted;
  };
  wait_until(is_answered, 10'000, 100);
}

// False in a child of vfork, which shares our memory but has another process id.
bool is_recorded_process() noexcept {
  // mutant: end_during_pause_not_told
  return session_exists() &&
         syscall(SYS_getpid) == static_cast<long>(the_session().ring.header().process_id);
}

// Writes the mark of the process's end, also while recording is paused.
bool write_end(trace::MarkKind mark) noexcept {
  Session& session = the_session();
  if (thread_state.session != session.id() &&
      !acquire_writer(session.pool, take_writer(session.pool))) {
    return false;
  }
  return write_mark(mark, {});
}

}  // namespace

void process_ends(trace::MarkKind mark) noexcept {
  if (!is_recorded_process()) return;
  const ErrnoKeeper errno_keeper;
  const CallGuard guard;
  trace::RingHeader& header = the_session().ring.header();
  // In a signal handler that has interrupted a hook, no mark is written: it would come between the
  // records of that hook.
  if (guard.outermost() && write_end(mark)) {
    header.marked_end.store(static_cast<std::uint32_t>(mark));
  }
  if (mark == trace::MarkKind::kExit) header.exit_seen.store(1);
  flush_and_wait();
}

void watch_exit() noexcept {
  static constinit std::atomic<bool> registered = false;
  if (!registered.exchange(true)) atexit([] { process_ends(trace::MarkKind::kExit); });
}

// `ending` is set before the flush is requested: the background thread then makes it the last one.
void library_ends() noexcept {
  const ErrnoKeeper errno_keeper;
  const CallGuard guard;
  if (!session_exists()) return;
  the_session().ending.store(true);
  flush_and_wait();
}

namespace {

constinit pthread_key_t thread_end_key = 0;
constinit bool thread_end_key_made = false;

// Destructor of the thread-specific key: runs after the destructors of the thread's C++
// thread_local objects. If a later destructor records, the thread takes a writer again, and the
// next round of destructors of keys returns that writer.
void thread_ends(void* value) noexcept {
  if (!session_exists() || thread_state.session != the_session().id()) return;
  if (thread_state.writer == static_cast<Writer*>(value)) return_writer(the_session().pool);
}

}  // namespace

bool make_thread_end_key() noexcept {
  if (thread_end_key_made) return true;
  // Both pthread functions are looked up now, and not later by a thread for which others may wait.
  thread_end_key_made = libc_pthread_key_create && libc_pthread_setspecific &&
                        libc_pthread_key_create(&thread_end_key, thread_ends) == 0;
  return thread_end_key_made;
}

// A value of the key makes libc call thread_ends() when this thread ends.
void return_writer_at_end() noexcept {
  libc_pthread_setspecific(thread_end_key, thread_state.writer);
}

}  // namespace gpumemtrace::preload
