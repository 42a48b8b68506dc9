// SPDX-License-Identifier: Apache-2.0
// What a session is made of, and where it is.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/base/config.hpp"
#include "preload/base/message.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/ring.hpp"
#include "preload/ring/writer_pool.hpp"
#include "preload/trace_file/output_path.hpp"
#include "preload/trace_file/trace_writer.hpp"

namespace gpumemtrace::preload {

struct Session {
  Config config;
  JobFacts job;
  Ring ring;
  WriterPool pool{ring};
  TraceWriter writer;
  Line path;  // not on the stack of the thread that starts, which may be small
  Line ring_path;
  LoaderList modules;  // the starting thread's, then the background thread's

  // Requests to the background thread. Who asks for a flush raises `flush_requested` and waits for
  // the answer.
  std::atomic<std::uint32_t> flush_requested = 0;
  std::atomic<std::uint32_t> flush_answered = 0;
  std::atomic<bool> sample_wanted = false;
  std::atomic<bool> driver_memory_changed = false;
  std::atomic<bool> ending = false;               // the next flush is the last
  std::atomic<bool> background_is_ready = false;  // what it does from now on waits for no lock

  // What control.session is while it records.
  std::uint32_t id() const noexcept { return pool.session_id; }
  // False before the start has ended, while paused, and after the end.
  [[nodiscard]] bool is_recording() const noexcept { return control.session.load() == id(); }
};

// Storage of the process's one session; meaningful from kStarting on.
Session& the_session() noexcept;

// Carries out what flushes ask for, of which there were `requested`: everything that was committed
// before is packed, then the askers are told. The background thread.
template <class PackAll>
void answer_flush(Session& session, std::uint32_t requested, PackAll&& pack_all) noexcept {
  if (requested == session.flush_answered.load()) return;
  pack_all();
  session.flush_answered.store(requested);
}

// What goes on while a checkpoint is made: packing, and answers. False where recording ends. The
// library's end gets no answer here: with it the process may be gone, and a file left half made.
template <class Pack, class PackAll>
[[nodiscard]] bool keep_up(Session& session, Pack&& pack, PackAll&& pack_all) noexcept {
  const std::uint32_t requested = session.flush_requested.load();
  // After that: the library's end sets it before it requests its flush.
  if (session.ending.load() || control.session.load() == kOff) return false;
  pack();
  answer_flush(session, requested, pack_all);
  return true;
}

}  // namespace gpumemtrace::preload
