// The parts of a session that its own files share: session.cpp (start, threads, end),
// background.cpp (the background thread) and prologue.cpp (what stands at the begin of every
// trace).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/config.hpp"
#include "preload/loader_list.hpp"
#include "preload/lock_free_stack.hpp"
#include "preload/message.hpp"
#include "preload/output_path.hpp"
#include "preload/ring.hpp"
#include "preload/thread_state.hpp"
#include "preload/trace_writer.hpp"

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

// --- background.cpp

// Starts the thread; false where the system refuses.
bool start_background_thread() noexcept;

// --- prologue.cpp

// Texts about the process, names of all wrapped functions, contexts that exist: packed straight
// into the new file as the first piece of writer 0. 0 or an errno value.
int write_prologue(Session& session) noexcept;

}  // namespace gpumemtrace::preload
