// SPDX-License-Identifier: Apache-2.0
// A session that a scenario's threads begin and end: shared by the programs that explore a
// session's life. These programs replace parts of the session's code (session_start.cpp).
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "preload/ring/call_guard.cpp"  // NOLINT: one unit, so that all of it is instrumented
#include "preload/session/attach.cpp"   // NOLINT
#include "preload/session/session.cpp"  // NOLINT
#include "tests/exploration/run_all.hpp"
#include "tests/exploration/world.hpp"

namespace gpumemtrace::exploration {
namespace {

// Controls and counts the starts of the session in a scenario.
struct Beginning {
  bool fails = false;
  bool is_paused_by_environment = false;
  bool ends_elsewhere = false;  // a thread of the scenario plays the background thread
  int count = 0;                // accesses are not explored
  // In a forked child, the bytes of its new session, which replace those of its parent's; else
  // null.
  const std::vector<std::byte>* session_of_child = nullptr;
  std::atomic<bool> has_begun = false;
};
Beginning beginning;

}  // namespace
}  // namespace gpumemtrace::exploration

// Replacements for the recorder's functions whose files are not in these programs.
namespace gpumemtrace::preload {

bool start_session(RequestedState requested) noexcept {
  exploration::Beginning& beginning = exploration::beginning;
  {
    const exploration::Unseen unseen;
    ++beginning.count;
  }
  if (beginning.fails) return false;
  // Stores the session with plain stores: a thread may read it only after it was published.
  Session& session = the_session();
  if (beginning.session_of_child != nullptr) {
    memcpy(static_cast<void*>(&session), beginning.session_of_child->data(), sizeof session);
  }
  session.pool.session_id = kFirstSessionId + (beginning.session_of_child != nullptr ? 1 : 0);
  session.config.start_paused = requested == RequestedState::kNone
                                    ? beginning.is_paused_by_environment
                                    : requested == RequestedState::kPause;
  beginning.has_begun.store(true);
  if (!beginning.ends_elsewhere) start_ends(true);
  return true;
}
void wait_for_background_thread() noexcept {}
void warn_not_recording(const char*) noexcept {}
void record_context(std::uint32_t) noexcept {}
namespace tracking {
std::uint32_t context_count() noexcept { return 0; }
void reset_if_forked() noexcept {}
}  // namespace tracking

}  // namespace gpumemtrace::preload

namespace gpumemtrace::exploration {
namespace {

// A world without a session; the first thread that wants to record makes the session.
class Unbegun : public World {
 public:
  explicit Unbegun(RingSize size, bool fails = false, bool is_paused = false)
      : World(size, /*has_begun=*/false) {
    silence_messages();
    promise(make_thread_end_key(), "there is no key for the ends of threads");
    beginning.fails = fails;
    beginning.is_paused_by_environment = is_paused;
  }
  ~Unbegun() {
    beginning.fails = beginning.is_paused_by_environment = beginning.ends_elsewhere = false;
  }

  // Makes one record; returns false if the session does not record.
  bool use(std::uint32_t number) {
    if (!recording(/*may_start=*/true)) return false;
    record(number);
    return true;
  }
  void request(bool to_record) {
    const CallGuard guard;
    request_recording(guard, to_record);
  }
  Outcome explore_until(std::vector<std::function<void()>> threads, std::function<void()> check) {
    Scenario whole = scenario(std::move(threads), /*may_die=*/false);
    whole.begin = [this] {
      begin();
      const Unseen unseen;
      beginning.count = 0;
      beginning.has_begun.store(false);
    };
    whole.end = [this, check = std::move(check)] {
      promise(beginning.count == 1, "a session is made twice");
      check();
      end();
    };
    return explore(whole);
  }
};

bool is_recording() { return control.session.load() == the_session().id(); }

void promise_own_is_packed() {
  const Unseen unseen;
  const trace::ChunkHeader& chunk = *thread_state.chunk;
  promise(chunk.packed == chunk.committed.load(),
          "the end came before what was recorded is packed");
}
// Plays the background thread: answers `times` flush requests.
void answer(World& world, std::uint32_t times) {
  const auto answers = [&world] {
    const Unseen unseen;
    return world.session().flush_answered.load();
  };
  for (std::uint32_t before = answers(); before < times; before = answers()) {
    answer_flush(world.session(), world.session().flush_requested.load(), [&world] {
      world.pack_sealed();
      world.pack_active();
    });
    if (answers() == before) wait_for_others();
  }
}

}  // namespace
}  // namespace gpumemtrace::exploration
