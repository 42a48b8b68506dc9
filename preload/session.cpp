#include "preload/session.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/annotations.hpp"
#include "preload/announce.hpp"
#include "preload/background.hpp"
#include "preload/clock.hpp"
#include "preload/content_hash.hpp"
#include "preload/libc_compat.hpp"
#include "preload/message.hpp"
#include "preload/module_list.hpp"
#include "preload/python_frames.hpp"
#include "preload/recorder.hpp"
#include "preload/sampler.hpp"
#include "preload/session_state.hpp"
#include "preload/stacks.hpp"
#include "preload/tracking.hpp"

namespace gpumemtrace::preload {

constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];
constinit Control control;
constinit bool counter_is_invariant = false;

namespace {

// Not destroyed: threads may record until the process is gone.
alignas(Session) constinit std::byte session_storage[sizeof(Session)] = {};

constinit bool control_is_wiped_on_fork = false;
constinit pthread_key_t thread_end_key = 0;
constinit bool thread_end_key_made = false;

// What the program asked for before the session began.
enum class Wish { kNone, kRecord, kPause };
constinit std::atomic<Wish> program_wish = Wish::kNone;

class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

void sleep_microseconds(long microseconds) noexcept {
  const timespec pause{0, microseconds * 1000};
  nanosleep(&pause, nullptr);
}

std::uint32_t current_thread_id() noexcept {
  return static_cast<std::uint32_t>(syscall(SYS_gettid));
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

std::uint32_t take_writer(Session& session) noexcept {
  const std::uint32_t idle = session.idle_writers.pop(session.writer_links);
  if (idle != kNoIndex) return idle;
  const std::uint32_t fresh = session.writer_count.fetch_add(1);
  if (fresh < kMaxWriters) return fresh;
  session.writer_count.store(kMaxWriters);
  return kNoIndex;
}

void write_thread_record(std::uint32_t thread_id, std::string_view name) noexcept {
  trace::Thread record;
  record.record.kind = trace::RecordKind::kThread;
  record.record.time = ticks();
  record.thread_id = thread_id;
  record.pthread_self = static_cast<std::uint64_t>(pthread_self());
  write_record(&record, sizeof record, name.data(), name.size());
}

// The name that the thread has now; `name` has room for it.
std::string_view thread_name(char (&name)[16]) noexcept {
  if (prctl(PR_GET_NAME, name, 0, 0, 0) != 0) return {};
  return {name, strnlen(name, sizeof name)};
}

constexpr std::uint32_t kBackgroundWriter = 0;

// Gives the thread a writer and tells the trace whose records follow.
bool acquire_writer(Session& session, std::uint32_t index) noexcept {
  if (index == kNoIndex) return false;
  ThreadState& state = thread_state;
  Writer& writer = session.writers[index];
  writer.id = index;
  state.writer = &writer;
  state.chunk = writer.chunk;
  state.cursor = writer.cursor;
  state.end = writer.end;
  state.session = session.id;
  const std::uint32_t thread_id = current_thread_id();
  writer.thread_id.store(thread_id);
  char name[16] = {};
  write_thread_record(thread_id, thread_name(name));
  return true;
}

// Destructor of the thread-specific key: runs after the thread's C++ thread-local objects. What a
// later destructor records takes a writer again, and the key's next round returns that one.
void thread_ends(void* value) noexcept {
  auto* writer = static_cast<Writer*>(value);
  ThreadState& state = thread_state;
  if (state.writer != writer || !session_exists() || state.session != the_session().id) return;
  writer->chunk = state.chunk;
  writer->cursor = state.cursor;
  writer->end = state.end;
  writer->thread_id.store(0);
  state.writer = nullptr;
  state.chunk = nullptr;
  state.cursor = state.end = nullptr;
  state.session = kNoSession;
  the_session().idle_writers.push(writer->id, the_session().writer_links);
}

void count_drop(Session& session, trace::DropClass drop_class) noexcept {
  const auto index = static_cast<std::size_t>(drop_class);
  session.ring.header().dropped[index].fetch_add(1, std::memory_order_relaxed);
  Writer& writer = *thread_state.writer;
  if (writer.gap_since == 0) writer.gap_since = ticks();
  ++writer.gap[index];
}

// What a thread too many wanted to record; of which class is not known here.
void count_without_writer() noexcept {
  const auto index = static_cast<std::size_t>(trace::DropClass::kOther);
  // Relaxed: a counter, nothing is ordered by it.
  the_session().ring.header().dropped[index].fetch_add(1, std::memory_order_relaxed);
}

// Tells the trace, at the begin of the first chunk after a gap, what is missing.
void write_gap() noexcept {
  Writer& writer = *thread_state.writer;
  if (writer.gap_since == 0) return;
  trace::Gap record;
  record.record.kind = trace::RecordKind::kGap;
  record.record.words = sizeof record / trace::kWordBytes;
  record.record.time = ticks();
  record.since = writer.gap_since;
  std::uint64_t* counts[] = {&record.allocations, &record.frees, &record.copies, &record.blocks,
                             &record.others};
  for (std::size_t i = 0; i < std::size(counts); ++i) {
    *counts[i] = writer.gap[i];
    writer.gap[i] = 0;
  }
  writer.gap_since = 0;
  memcpy(thread_state.cursor, &record, sizeof record);
  commit(sizeof record);
}

trace::ChunkHeader* take_chunk(Session& session, std::uint32_t size_class,
                               bool important) noexcept {
  trace::ChunkHeader* chunk = session.ring.take(size_class, important);
  while (chunk == nullptr && session.config.on_full == OnFull::kBlock &&
         control.session.load() == session.id && session.background_runs.load() &&
         thread_state.writer->id != 0) {
    sleep_microseconds(200);
    chunk = session.ring.take(size_class, important);
  }
  return chunk;
}

}  // namespace

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

bool reserve_is_over(trace::DropClass drop_class) noexcept {
  Session& session = the_session();
  thread_state.chunk_is_reserved = session.ring.is_short();
  if (thread_state.chunk_is_reserved) count_drop(session, drop_class);
  return !thread_state.chunk_is_reserved;
}

std::byte* reserve_in_new_chunk(std::size_t bytes, trace::DropClass drop_class) noexcept {
  const ErrnoKeeper errno_keeper;
  Session& session = the_session();
  ThreadState& state = thread_state;
  Writer& writer = *state.writer;
  if (state.chunk != nullptr) {
    session.ring.seal(state.chunk);
    state.chunk = nullptr;
    state.cursor = state.end = nullptr;
  }
  const bool important = drop_class != trace::DropClass::kCopy;
  trace::ChunkHeader* chunk = take_chunk(session, writer.size_class, important);
  if (chunk == nullptr) {
    count_drop(session, drop_class);
    return nullptr;
  }
  // A reader of a killed process's ring must never see old content under a new name: the state is
  // "free" until the chunk is the writer's in all other respects.
  chunk->committed.store(0, std::memory_order_relaxed);
  chunk->packed = 0;
  chunk->writer = writer.id;
  chunk->sequence = writer.next_sequence++;
  ++chunk->generation;
  // Release: pairs with readers of the file and the background thread's walk over the chunks.
  chunk->state.store(trace::ChunkState::kActive, std::memory_order_release);
  if (writer.size_class + 1 < Ring::kSizeClasses) ++writer.size_class;
  state.chunk = chunk;
  state.chunk_is_reserved = session.config.on_full == OnFull::kDrop && session.ring.is_short();
  state.cursor = reinterpret_cast<std::byte*>(chunk + 1);
  state.end = reinterpret_cast<std::byte*>(chunk) + chunk->bytes;
  write_gap();
  write_thread_record(writer.thread_id.load(std::memory_order_relaxed), {});  // own store
  return static_cast<std::size_t>(state.end - state.cursor) < bytes ? nullptr : state.cursor;
}

bool write_record(const void* record, std::size_t bytes, const char* tail,
                  std::size_t tail_bytes) noexcept {
  const std::size_t padded =
      (tail_bytes + trace::kWordBytes - 1) / trace::kWordBytes * trace::kWordBytes;
  const std::size_t total = bytes + padded;
  ThreadState& state = thread_state;
  std::byte* out = static_cast<std::size_t>(state.end - state.cursor) < total
                       ? reserve_in_new_chunk(total, trace::DropClass::kOther)
                       : state.cursor;
  if (out == nullptr) return false;
  memcpy(out, record, bytes);
  memset(out + bytes, 0, padded);
  if (tail_bytes > 0) memcpy(out + bytes, tail, tail_bytes);
  out[1] = static_cast<std::byte>(total / trace::kWordBytes);
  commit(total);
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
