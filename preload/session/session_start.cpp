// SPDX-License-Identifier: Apache-2.0
#include "preload/session/session_start.hpp"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/message.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/control.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/background.hpp"
#include "preload/session/content_hash.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/session_state.hpp"
#include "preload/session/thread_end.hpp"
#include "preload/session/trace_metadata.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

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
  constexpr std::size_t kLongestPath = Line::kCapacity - 64;  // a number and endings follow
  if (path.size() > kLongestPath) {
    path.truncate(200);  // as much as is reported
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
  error = write_trace_metadata(session);
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

void say_no_thread() noexcept {
  say_not_recording("the system allows no further thread, or has no memory for one");
}

// The loader's locks, the program's environment and its memory functions are the calling thread's
// affair: it may hold locks that another one would wait for.
bool prepare_session(Session& session, RequestedState requested) noexcept {
  writer_pool = &session.pool;
  session.config = read_config();
  if (requested != RequestedState::kNone) {
    session.config.start_paused = requested == RequestedState::kPause;
  }
  session.pool.on_full = session.config.on_full;
  session.job = read_job_facts();
  expand_output_path(session.config.output_pattern, session.job, session.path);
  session.modules.find_list();
  choose_module_lookup();  // hooks ask for modules also where native stacks are not wanted
  load_sampler();
  if (!make_thread_end_key()) {
    say_not_recording("the process has no thread-specific key left");
    return false;
  }
  return true;
}

bool make_session(Session& session) noexcept {
  choose_clock();
  forget_modules();
  (void)session.modules.refresh();
  publish_modules(session.modules);
  python::refresh(session.modules);
  reset_names();
  if (!session.pool.map_writers()) {
    say_not_recording("there is no memory for the recorder");
    return false;
  }
  if (const int error = begin_trace(session); error != 0) {
    say_trace_cannot_be_written(session, error);
    return false;
  }
  session.pool.session_id = kFirstSessionId + static_cast<std::uint32_t>(getpid());
  session.pool.writers[0].next_sequence = 1;
  reset_stacks(session.config);
  set_content_hashing(session.config);
  return true;
}

// The background thread's part.
bool finish_session() noexcept {
  const bool is_running = file_thread::wait_until_ready();
  if (!is_running) say_no_thread();
  const bool is_made = is_running && make_session(the_session());
  if (!is_made) {
    file_thread::stop();
    the_session().pool.is_emptied.store(false);
  }
  return is_made;
}

}  // namespace

// Not inlined: the line must not lie on the stack of a thread of the program.
[[gnu::noinline]] void say_not_recording(const char* reason) noexcept {
  message(Line() << "not recording: " << reason << ".");
}

bool start_session(RequestedState requested) noexcept {
  auto* session = new (&the_session()) Session;
  file_thread::prepare();
  if (!prepare_session(*session, requested)) return false;
  if (start_own_thread(file_thread::main)) {
    if (start_background_thread(finish_session)) return true;
    file_thread::stop();
  }
  say_no_thread();
  return false;
}

}  // namespace gpumemtrace::preload
