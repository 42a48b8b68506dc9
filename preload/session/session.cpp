// SPDX-License-Identifier: Apache-2.0
#include "preload/session/session.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/base/errno_keeper.hpp"
#include "preload/base/message.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/native/hook_search.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/announce.hpp"
#include "preload/session/background.hpp"
#include "preload/session/session_state.hpp"

namespace gpumemtrace::preload {

constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];
constinit Control control;

namespace {

// Not destroyed: threads may record until the process is gone.
alignas(Session) constinit std::byte session_storage[sizeof(Session)] = {};

constinit bool control_is_wiped_on_fork = false;
constinit pthread_key_t thread_end_key = 0;
constinit bool thread_end_key_made = false;

constinit std::atomic<Wish> program_wish = Wish::kNone;

void sleep_microseconds(long microseconds) noexcept {
  const timespec pause{0, microseconds * 1000};
  nanosleep(&pause, nullptr);
}

// Replaces the static page by one that the kernel empties in a forked child. Runs before any
// thread could read it.
[[gnu::constructor]] void library_begins() {
  remember_standard_error();
  void* page = mmap(&control, sizeof control, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  control_is_wiped_on_fork =
      page == &control && madvise(page, sizeof control, MADV_WIPEONFORK) == 0;
}

[[gnu::destructor]] void library_destructor() { library_ends(); }

[[gnu::noinline]] void say_not_recording(const char* reason) noexcept {
  message(Line() << "not recording: " << reason << ".");
}

// The one thread that won the exchange comes here; others wait in attach_thread.
void start() noexcept {
  tracking::reset_if_forked();
  // Whoever wishes something after this was read finds kStarting, waits, and acts on the session.
  const Wish wish = program_wish.load();
  const char* failure =
      control_is_wiped_on_fork ? start_session(wish) : "the kernel is too old (MADV_WIPEONFORK)";
  if (failure != nullptr) {
    if (failure[0] != '\0') say_not_recording(failure);
    control.session.store(kOff);
    return;
  }
  // Fails where the background thread has had to give up.
  std::uint32_t starting = kStarting;
  const bool paused = the_session().config.start_paused;
  control.session.compare_exchange_strong(starting, paused ? kPaused : the_session().id);
}

// Destructor of the thread-specific key: runs after the thread's C++ thread-local objects. What a
// later destructor records takes a writer again, and the key's next round returns that one.
void thread_ends(void* value) noexcept {
  if (!session_exists() || thread_state.session != the_session().id) return;
  if (thread_state.writer == static_cast<Writer*>(value)) return_writer(the_session());
}

// What a thread too many wanted to record; of which class is not known here.
void count_without_writer() noexcept {
  const auto index = static_cast<std::size_t>(trace::DropClass::kOther);
  // Relaxed: a counter, nothing is ordered by it.
  the_session().ring.header().dropped[index].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool CallGuard::is_left(std::uintptr_t frame) noexcept {
  // Stacks grow down: what a hook calls has its frame below the hook's.
  const std::uintptr_t marked = thread_state.hook_frame;
  if (frame >= marked) return true;
  // Relaxed: a session that this thread has not seen begin is not the marked hook's.
  if (control.session.load(std::memory_order_relaxed) == kNotStarted) return true;
  const native::HookState state = native::state_of_hook(marked);
  if (state == native::HookState::kUnknown && session_exists()) {
    // Relaxed: a counter, nothing is ordered by it.
    the_session().ring.header().calls_taken_for_parts.fetch_add(1, std::memory_order_relaxed);
  }
  return state == native::HookState::kLeft;
}

Session& the_session() noexcept {
  return *std::launder(reinterpret_cast<Session*>(session_storage));
}

bool make_thread_end_key() noexcept {
  if (thread_end_key_made) return true;
  // Both are looked for now, and not by a thread that others may wait for.
  thread_end_key_made = libc_pthread_key_create && libc_pthread_setspecific &&
                        libc_pthread_key_create(&thread_end_key, thread_ends) == 0;
  return thread_end_key_made;
}

void wake_background_thread() noexcept {
  Session& session = the_session();
  session.wakes.fetch_add(1);
  syscall(SYS_futex, &session.wakes, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool session_exists() noexcept {
  const std::uint32_t session = control.session.load();
  return session == kPaused || session >= kFirstSessionId;
}

bool attach_background_thread() noexcept {
  return thread_state.session == the_session().id ||
         acquire_writer(the_session(), kBackgroundWriter);
}

namespace {

// What the session's word is once no start is under way; it waits for one, at most two seconds.
std::uint32_t settled_session() noexcept {
  for (int tries = 0; control.session.load() == kStarting && tries < 20'000; ++tries) {
    sleep_microseconds(100);
  }
  return control.session.load();
}

}  // namespace

bool attach_thread(bool may_start) noexcept {
  const ErrnoKeeper errno_keeper;
  std::uint32_t session = control.session.load();
  if (session == kNotStarted) {
    if (!may_start) return false;
    if (control.session.compare_exchange_strong(session, kStarting)) start();
  }
  session = settled_session();
  if (session < kFirstSessionId) return false;
  if (thread_state.session == session) return true;
  if (!acquire_writer(the_session(), take_writer(the_session()))) {
    count_without_writer();
    return false;
  }
  // Not for the background thread, nor in signal handlers: libc may allocate memory for the value.
  libc_pthread_setspecific(thread_end_key, thread_state.writer);
  return true;
}

bool write_mark(trace::MarkKind kind, std::string_view name) noexcept {
  trace::Mark record;
  record.record.kind = trace::RecordKind::kMark;
  record.record.time = ticks();
  record.mark = kind;
  return write_record(&record, sizeof record, name.data(), name.size());
}

bool pause_recording(const CallGuard&) noexcept {
  if (!recording(false)) return false;
  write_mark(trace::MarkKind::kStopped, {});
  Session& session = the_session();
  std::uint32_t recording_id = session.id;
  return control.session.compare_exchange_strong(recording_id, kPaused);
}

bool resume_recording(const CallGuard&) noexcept {
  std::uint32_t paused = settled_session();
  if (paused != kPaused) return false;
  if (!control.session.compare_exchange_strong(paused, the_session().id)) return false;
  if (!recording(false)) return false;
  write_mark(trace::MarkKind::kStarted, {});
  for (std::uint32_t id = 1; id <= tracking::context_count(); ++id) announce_context(id);
  return true;
}

void want_recording(const CallGuard& guard, bool wanted) noexcept {
  program_wish.store(wanted ? Wish::kRecord : Wish::kPause);
  if (!wanted) {
    pause_recording(guard);
  } else if (resume_recording(guard)) {
    want_sample();
  }
}

void disable(const CallGuard&, const char* reason) noexcept {
  if (control.session.load() == kOff) return;
  // Where the trace file cannot be written any more, readers find this in the ring.
  write_mark(trace::MarkKind::kDisabled, reason);
  control.session.store(kOff);
  message(Line() << "recording stopped: " << reason << ". The program goes on; the trace "
                 << the_session().path.text() << " ends here.");
}

namespace {

// Asks the background thread to pack everything that is committed, and waits for it.
void flush_and_wait() noexcept {
  Session& session = the_session();
  if (!session.background_runs.load()) return;
  const std::uint32_t wanted = session.flush_requested.fetch_add(1) + 1;
  wake_background_thread();
  for (int tries = 0;
       tries < 10'000 && session.background_runs.load() && session.flush_answered.load() < wanted;
       ++tries) {
    sleep_microseconds(100);
  }
}

// False in a child of vfork: it has our memory and another number.
bool is_recorded_process() noexcept {
  return session_exists() &&
         syscall(SYS_getpid) == static_cast<long>(the_session().ring.header().process_id);
}

// Also while recording is paused.
bool write_ending(trace::MarkKind mark) noexcept {
  Session& session = the_session();
  if (thread_state.session != session.id && !acquire_writer(session, take_writer(session))) {
    return false;
  }
  return write_mark(mark, {});
}

}  // namespace

void ending_comes(trace::MarkKind mark) noexcept {
  if (!is_recorded_process()) return;
  const ErrnoKeeper errno_keeper;
  const CallGuard guard;
  trace::RingHeader& header = the_session().ring.header();
  // A handler of a signal that came inside a hook must not write between that hook's records.
  if (guard.outermost() && write_ending(mark)) {
    header.marked_end.store(static_cast<std::uint32_t>(mark));
  }
  if (mark == trace::MarkKind::kExit) header.exit_seen.store(1);
  flush_and_wait();
}

void library_ends() noexcept {
  const ErrnoKeeper errno_keeper;
  const CallGuard guard;
  if (!session_exists()) return;
  the_session().ending.store(true);
  flush_and_wait();
}

}  // namespace gpumemtrace::preload
