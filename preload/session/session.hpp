// SPDX-License-Identifier: Apache-2.0
// One recording of one process, from its first use of CUDA memory to its end: its marks, its pauses
// and its ends. There is at most one session in a process; a forked child starts its own
// (preload/session/lifecycle.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include "preload/base/config.hpp"
#include "preload/base/message.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/ring.hpp"
#include "preload/ring/writers.hpp"
#include "preload/trace_file/output_path.hpp"
#include "preload/trace_file/trace_writer.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

class CallGuard;

struct Session {
  Config config;
  JobFacts job;
  Ring ring;
  WriterPool pool{ring};
  TraceWriter writer;
  Line path;  // not on the starting thread's stack, which may be small
  Line ring_path;
  LoaderList modules;  // used by the starting thread, then by the background thread

  // Requests to the background thread. A thread that asks for a flush raises `flush_requested` and
  // waits for the answer.
  std::atomic<std::uint32_t> flush_requested = 0;
  std::atomic<std::uint32_t> flush_answered = 0;
  std::atomic<bool> sample_wanted = false;
  std::atomic<bool> driver_memory_changed = false;
  std::atomic<bool> ending = false;  // the next flush is the last
  // True once the background thread waits for no lock that a thread of the program may hold.
  std::atomic<bool> background_is_ready = false;

  // The value of control.session while this session records.
  std::uint32_t id() const noexcept { return pool.session_id; }
  // False before the start has ended, while paused, and after the end.
  [[nodiscard]] bool is_recording() const noexcept { return control.session.load() == id(); }
};

// Storage of the process's one session. It is never destroyed: threads may record until the process
// is gone.
alignas(Session) inline constinit std::byte
    session_storage[sizeof(Session)] [[gnu::visibility("hidden")]] = {};

// The process's session; valid once control.session is kStarting or a later state.
inline Session& the_session() noexcept {
  return *std::launder(reinterpret_cast<Session*>(session_storage));
}

// Writes a mark for the calling thread, which must be attached; false if the mark was dropped.
[[nodiscard]] bool write_mark(trace::MarkKind kind, std::string_view name) noexcept;

// Waits while a session is being started, then returns control.session. All callers together wait
// for one start at most two seconds; after that they return kStarting at once.
std::uint32_t wait_for_start() noexcept;

// Ends the start of a session, which was made or could not be made: threads that wait for the start
// go on. Called by the background thread.
void start_ends(bool has_session) noexcept;
// Adds calls that have no record to the losses of class kOther: their own class is not known here.
void count_unrecorded(std::uint32_t calls) noexcept;

// Pauses or resumes the recording; false if that changes nothing.
[[nodiscard]] bool pause_recording(const CallGuard& guard) noexcept;
[[nodiscard]] bool resume_recording(const CallGuard& guard) noexcept;

// Asks for a sample of the driver's numbers soon, for example after an allocation failed. Any
// thread that records. Costs a store, and a system call if the background thread sleeps long.
void request_sample() noexcept;

// Called when the driver may have taken or returned memory by itself: for contexts, limits, graphs,
// streams, modules. Samples follow soon, at most twenty a second. Any thread, recording or not.
// Costs a load if samples are due already.
void driver_memory_changed() noexcept;

// Gives the background thread its writer; the thread calls this itself.
[[nodiscard]] bool attach_background_thread() noexcept;

// Ends the recording for good; the program goes on. Tells the reason once, on stderr and in the
// trace. Called by the background thread.
void end_recording(const CallGuard& guard, const char* reason) noexcept;

// Called when the process is about to end (kExit), or to become another program (kExec) unless that
// fails: writes a mark, and has everything so far packed and sampled. Waits for the background
// thread, at most a second. Is also called in signal handlers, and in children that share our
// memory (vfork): in such a child it does nothing, because the child's end is not this process's.
void process_ends(trace::MarkKind mark) noexcept;
// Makes exit() call process_ends() from now on; registers the handler once in a process.
void watch_exit() noexcept;
// Called by the destructor of this library, after most other destructors: packs the last records.
void library_ends() noexcept;

// Makes the thread-specific key by which a thread that ends returns its writer. Called before
// threads attach; makes the key once in a process.
[[nodiscard]] bool make_thread_end_key() noexcept;

// Makes the calling thread, which must have a writer, return the writer when the thread ends. The
// background thread and signal handlers must not call this: libc may allocate memory.
void return_writer_at_end() noexcept;

// Answers the first `requested` requests for a flush: packs all records committed so far, then
// tells the threads that wait for these flushes. Called by the background thread.
template <class PackAll>
void answer_flush(Session& session, std::uint32_t requested, PackAll&& pack_all) noexcept {
  if (requested == session.flush_answered.load()) return;
  pack_all();                               // mutant: answered_before_packed
  session.flush_answered.store(requested);  // mutant: answered_later_request
}

// Packs and answers flushes while a checkpoint is made. False if recording ends. The flush that
// library_ends() requests gets no answer here: after an answer the process may be gone, and the
// checkpoint's file would be left half made.
template <class Pack, class PackAll>
[[nodiscard]] bool service_requests(Session& session, Pack&& pack, PackAll&& pack_all) noexcept {
  const std::uint32_t requested = session.flush_requested.load();
  // `ending` is read after the count of requests, because library_ends() sets it before it requests
  // its flush.
  // mutant: end_answered_half_way, end_looked_at_first
  if (session.ending.load() || control.session.load() == kOff) return false;
  pack();
  answer_flush(session, requested, pack_all);
  return true;
}

}  // namespace gpumemtrace::preload
