// SPDX-License-Identifier: Apache-2.0
// What a session is made of: its files, its tables, and the background thread.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/message.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/python/python_frames.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/content_hash.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/session.hpp"
#include "preload/session/session_state.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

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

// Apart from those that begin a session, which would have the lines on their stacks.
[[gnu::noinline]] void say_trace_cannot_be_written(const Session& session, int error) noexcept {
  message(Line() << "cannot write the trace " << session.path.text() << ": " << errno_text(error)
                 << " (errno " << static_cast<std::uint64_t>(error) << "). "
                 << (error == ENOMEM
                         ? "Make the ring smaller with --ring-size."
                         : "Choose another place with --output or GPUMEMTRACE_OUTPUT."));
}

bool start_file_thread() noexcept {
  file_thread::prepare();
  pthread_t thread;
  if (!start_own_thread(file_thread::main, thread)) return false;
  libc_pthread_detach(thread);
  return file_thread::wait_until_ready();
}

constexpr const char* kNoThread = "the system allows no further thread, or has no memory for one";

const char* make_session(Session& session, Wish wish) noexcept {
  choose_clock();
  session.config = read_config();
  if (wish != Wish::kNone) session.config.start_paused = wish == Wish::kPause;
  session.job = read_job_facts();
  choose_module_lookup();  // hooks ask for modules also where native stacks are not wanted
  forget_modules();
  session.modules.look();
  publish_modules(session.modules);
  python::look(session.modules);
  load_sampler();
  reset_names();
  session.writers = map_array<Writer>(kMaxWriters);
  session.writer_links = map_array<std::atomic<std::uint32_t>>(kMaxWriters);
  if (session.writers == nullptr || session.writer_links == nullptr) {
    return "there is no memory for the recorder";
  }
  if (!make_thread_end_key()) return "the process has no thread-specific key left";
  if (const int error = begin_trace(session); error != 0) {
    say_trace_cannot_be_written(session, error);
    return "";
  }
  session.id = kFirstSessionId + static_cast<std::uint32_t>(getpid());
  session.writer_count.store(1);  // writer 0 is the background thread's
  session.writers[0].next_sequence = 1;
  reset_stacks(session.config);
  set_content_hashing(session.config);
  if (!start_background_thread()) {
    discard_files(session);
    return kNoThread;
  }
  return nullptr;
}

}  // namespace

const char* start_session(Wish wish) noexcept {
  auto* session = new (&the_session()) Session;
  if (!start_file_thread()) return kNoThread;
  const char* const failure = make_session(*session, wish);
  if (failure != nullptr) file_thread::stop();
  return failure;
}

}  // namespace gpumemtrace::preload
