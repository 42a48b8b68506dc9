#include "preload/session.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/annotations.hpp"
#include "preload/announce.hpp"
#include "preload/background.hpp"
#include "preload/clock.hpp"
#include "preload/content_hash.hpp"
#include "preload/errno_keeper.hpp"
#include "preload/libc_compat.hpp"
#include "preload/message.hpp"
#include "preload/module_list.hpp"
#include "preload/python_frames.hpp"
#include "preload/recorder.hpp"
#include "preload/sampler.hpp"
#include "preload/session_state.hpp"
#include "preload/stack_memory.hpp"
#include "preload/stacks.hpp"
#include "preload/tracking.hpp"
#include "preload/writers.hpp"

namespace gpumemtrace::preload {

constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];
constinit Control control;

namespace {

// Not destroyed: threads may record until the process is gone.
alignas(Session) constinit std::byte session_storage[sizeof(Session)] = {};

constinit bool control_is_wiped_on_fork = false;
constinit pthread_key_t thread_end_key = 0;
constinit bool thread_end_key_made = false;

// What the program asked for before the session began.
enum class Wish { kNone, kRecord, kPause };
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

template <class Value>
Value* map_array(std::size_t count) noexcept {
  void* memory = mmap(nullptr, count * sizeof(Value), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Value*>(memory);
}

trace::TraceId random_id() noexcept {
  trace::TraceId id;
  if (syscall(SYS_getrandom, &id, sizeof id, 0) != static_cast<long>(sizeof id)) {
    id = {clock_ns(CLOCK_REALTIME),
          (clock_ns(CLOCK_MONOTONIC) << 20) ^ static_cast<std::uint64_t>(getpid())};
  }
  return id;
}

// What a checkpoint was written to when the process was killed.
void unlink_replacement(Line& path) noexcept {
  const std::size_t size = path.size();
  path << ".tmp";
  unlink(path.c_str());
  path.truncate(size);
}

// Makes trace file and ring under the first free name: NAME.gmt, NAME.2.gmt, ...
int create_files(Session& session) noexcept {
  constexpr std::string_view kExtension = ".gmt";
  Line& path = session.path;
  Line& ring_path = session.ring_path;
  expand_output_path(session.config.output_pattern, session.job, path);
  constexpr std::size_t kLongestPath = Line::kCapacity - 64;  // a number and endings follow
  if (path.size() > kLongestPath) {
    path.truncate(200);  // as much as is told
    return ENAMETOOLONG;
  }
  make_folders(path.c_str());
  const trace::TraceId id = random_id();
  const std::size_t stem = path.size() - kExtension.size();
  for (std::uint64_t number = 1; number < 10'000; ++number) {
    ring_path.truncate(0);
    ring_path << path.text() << ".ring";
    if (session.config.force && !is_locked_by_another(ring_path.c_str())) {
      unlink(path.c_str());
      unlink(ring_path.c_str());
    }
    int error = session.writer.create(path.c_str(), id);
    if (error == EEXIST) {
      path.truncate(stem);
      path << "." << (number + 1) << kExtension;
      continue;
    }
    if (error != 0) return error;
    // Left of a trace that somebody deleted.
    unlink(ring_path.c_str());
    unlink_replacement(path);
    error = session.ring.create(ring_path.c_str(), id, session.config.ring_bytes);
    if (error != 0) session.writer.discard(path.c_str());
    return error;
  }
  return EEXIST;
}

// A recording that cannot begin leaves nothing behind.
void discard_files(Session& session) noexcept {
  session.ring.discard(session.ring_path.c_str());
  session.writer.discard(session.path.c_str());
}

int begin_trace(Session& session) noexcept {
  int error = create_files(session);
  if (error != 0) return error;
  error = write_prologue(session);
  if (error != 0) discard_files(session);
  return error;
}

void thread_ends(void*) noexcept;

// Apart from those that begin a session, which would have the lines on their stacks.
[[gnu::noinline]] void say_trace_cannot_be_written(const Session& session, int error) noexcept {
  message(Line() << "cannot write the trace " << session.path.text() << ": " << errno_text(error)
                 << " (errno " << static_cast<std::uint64_t>(error) << "). "
                 << (error == ENOMEM
                         ? "Make the ring smaller with --ring-size."
                         : "Choose another place with --output or GPUMEMTRACE_OUTPUT."));
}
[[gnu::noinline]] void say_not_recording(const char* reason) noexcept {
  message(Line() << "not recording: " << reason << ".");
}

const char* start_session() noexcept {
  choose_clock();
  auto* session = new (session_storage) Session;
  session->config = read_config();
  if (const Wish wish = program_wish.load(); wish != Wish::kNone) {
    session->config.start_paused = wish == Wish::kPause;
  }
  session->job = read_job_facts();
  forget_modules();
  session->modules.look();
  python::look(session->modules);
  load_sampler();
  reset_names();
  session->writers = map_array<Writer>(kMaxWriters);
  session->writer_links = map_array<std::atomic<std::uint32_t>>(kMaxWriters);
  if (session->writers == nullptr || session->writer_links == nullptr) {
    return "there is no memory for the recorder";
  }
  if (!thread_end_key_made) {
    if (gpumemtrace_libc_pthread_key_create == nullptr ||
        gpumemtrace_libc_pthread_key_create(&thread_end_key, thread_ends) != 0) {
      return "the process has no thread-specific key left";
    }
    thread_end_key_made = true;
  }
  if (const int error = begin_trace(*session); error != 0) {
    say_trace_cannot_be_written(*session, error);
    return "";
  }
  session->id = kFirstSessionId + static_cast<std::uint32_t>(getpid());
  session->writer_count.store(1);  // writer 0 is the background thread's
  session->writers[0].next_sequence = 1;
  session->ring.header().recording.store(session->config.start_paused ? 0 : 1);
  reset_stacks(session->config);
  set_content_hashing(session->config);
  if (!start_background_thread()) {
    discard_files(*session);
    return "the system allows no further thread";
  }
  return nullptr;
}

// The one thread that won the exchange comes here; others wait in attach_thread.
void start() noexcept {
  tracking::reset_if_forked();
  const char* failure =
      control_is_wiped_on_fork ? start_session() : "the kernel is too old (MADV_WIPEONFORK)";
  if (failure != nullptr) {
    if (failure[0] != '\0') say_not_recording(failure);
    control.session.store(kOff);
    return;
  }
  // Release: pairs with the acquire in attach_thread(); the session is complete.
  control.session.store(the_session().config.start_paused ? kPaused : the_session().id,
                        std::memory_order_release);
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

bool CallGuard::is_overwritten(const ThreadState& state) noexcept {
  const auto guard = reinterpret_cast<std::uintptr_t>(state.outermost);
  const std::uintptr_t end = state.outermost_frame + 2 * sizeof(std::uintptr_t);
  if (guard > end || !native::is_known_stack(guard, end - guard)) return false;
  return state.outermost->self_ != state.outermost ||
         return_address_of(state.outermost_frame) != state.outermost_return_address;
}

Session& the_session() noexcept {
  return *std::launder(reinterpret_cast<Session*>(session_storage));
}

void wake_background_thread() noexcept {
  Session& session = the_session();
  session.wakes.fetch_add(1);
  syscall(SYS_futex, &session.wakes, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool session_exists() noexcept {
  const std::uint32_t session = control.session.load(std::memory_order_acquire);
  return session == kPaused || session >= kFirstSessionId;
}

bool attach_background_thread() noexcept {
  return thread_state.session == the_session().id ||
         acquire_writer(the_session(), kBackgroundWriter);
}

bool attach_thread(bool may_start) noexcept {
  const ErrnoKeeper errno_keeper;
  std::uint32_t session = control.session.load(std::memory_order_acquire);  // pairs with start()
  if (session == kNotStarted) {
    if (!may_start) return false;
    if (control.session.compare_exchange_strong(session, kStarting)) start();
  }
  for (int tries = 0; control.session.load() == kStarting && tries < 20'000; ++tries) {
    sleep_microseconds(100);
  }
  session = control.session.load(std::memory_order_acquire);  // pairs with start()
  if (session < kFirstSessionId) return false;
  if (thread_state.session == session) return true;
  if (!acquire_writer(the_session(), take_writer(the_session()))) {
    count_without_writer();
    return false;
  }
  // Not for the background thread, nor in signal handlers: libc may allocate memory for the value.
  gpumemtrace_libc_pthread_setspecific(thread_end_key, thread_state.writer);
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
  if (!control.session.compare_exchange_strong(recording_id, kPaused)) return false;
  session.ring.header().recording.store(0);
  return true;
}

bool resume_recording(const CallGuard&) noexcept {
  if (!session_exists()) return false;
  std::uint32_t paused = kPaused;
  if (!control.session.compare_exchange_strong(paused, the_session().id)) return false;
  the_session().ring.header().recording.store(1);
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
