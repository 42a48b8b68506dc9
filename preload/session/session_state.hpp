// SPDX-License-Identifier: Apache-2.0
// The parts of a session that its own files share: session.cpp (its word, threads, end),
// session_start.cpp (what it is made of), background.cpp (the background thread) and prologue.cpp
// (what stands at the begin of every trace).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/config.hpp"
#include "preload/base/lock_free_stack.hpp"
#include "preload/base/message.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/ring/ring.hpp"
#include "preload/ring/thread_state.hpp"
#include "preload/trace_file/output_path.hpp"
#include "preload/trace_file/trace_writer.hpp"

namespace gpumemtrace::preload {

inline constexpr std::uint32_t kMaxWriters = 8192;

struct Session {
  Config config;
  JobFacts job;
  std::uint32_t id = 0;
  Ring ring;
  TraceWriter writer;
  Line path;  // not on the stack of the thread that starts, which may be small
  Line ring_path;
  LoaderList modules;  // the starting thread's, then the background thread's

  Writer* writers = nullptr;  // kMaxWriters, mapped
  std::atomic<std::uint32_t>* writer_links = nullptr;
  std::atomic<std::uint32_t> writer_count = 0;
  IndexStack idle_writers;

  // Requests to the background thread: the asker raises `flush_requested`, waits for the answer.
  std::atomic<std::uint32_t> flush_requested = 0;
  std::atomic<std::uint32_t> flush_answered = 0;
  std::atomic<std::uint32_t> wakes = 0;  // raised to end the background thread's pause
  std::atomic<bool> ending = false;      // the next flush is the last
  std::atomic<bool> background_runs = false;
  std::atomic<bool> background_is_ready = false;  // what it does from now on waits for no lock
};

// Storage of the process's one session; meaningful from kStarting on.
Session& the_session() noexcept;

// Ends the background thread's pause, also one that is about to begin. A system call.
void wake_background_thread() noexcept;

// Once in a process: from then on a thread that ends returns its writer.
[[nodiscard]] bool make_thread_end_key() noexcept;

// Carries out what flush_and_wait() asks for: everything that was committed before is packed, then
// the asker is told. The background thread.
template <class PackAll>
void answer_flush(Session& session, PackAll&& pack_all) noexcept {
  const std::uint32_t requested = session.flush_requested.load();
  if (requested == session.flush_answered.load()) return;
  pack_all();
  session.flush_answered.store(requested);
}

// --- session_start.cpp

// What the program asked for before the session began.
enum class Wish { kNone, kRecord, kPause };

// Makes the session, on the one thread that may. nullptr, or why there is none: empty where that
// was said already.
const char* start_session(Wish wish) noexcept;

// --- background.cpp

// Starts the thread; false where the system refuses.
bool start_background_thread() noexcept;

// --- prologue.cpp

// Texts about the process, names of all wrapped functions, contexts that exist: packed straight
// into the new file as the first piece of writer 0. 0 or an errno value.
int write_prologue(Session& session) noexcept;

}  // namespace gpumemtrace::preload
