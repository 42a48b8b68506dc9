// SPDX-License-Identifier: Apache-2.0
// CUDA contexts that threads use for the first time, in every order of the threads' steps: each
// context gets one id, the table's entry of an id is complete, and the trace has a record of each
// context, also of one met while the recording starts. This file plays the driver.
#include <functional>
#include <set>
#include <vector>

#include "preload/driver/tracking.cpp"  // NOLINT: one unit, so that all of it is instrumented
#include "preload/session/context_records.cpp"  // NOLINT
#include "tests/exploration/run_all.hpp"
#include "tests/exploration/session_stub.hpp"
#include "tests/exploration/world.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::preload::driver {

std::uint64_t current_context() noexcept { return 0; }
int device_of_context(std::uint64_t) noexcept { return 5; }

}  // namespace gpumemtrace::preload::driver

namespace gpumemtrace::exploration {
namespace {

using trace::ContextId;

constexpr std::uint64_t kHandle = 0x1000;
constexpr std::uint64_t kOtherHandle = 0x2000;

// Threads that use contexts for the first time, without a recording.
class Meeting {
 public:
  // The calling thread uses the context `handle` and got `id` for it; `new_id` is the same if the
  // thread has to announce the context, else kNone.
  void met(std::uint64_t handle, ContextId id, ContextId new_id) {
    promise(id != ContextId::kNone, "a context has no id");
    promise(new_id == ContextId::kNone || new_id == id, "a context is announced by another's id");
    if (new_id != ContextId::kNone) {
      const tracking::ContextInfo info = tracking::context_info(id);
      promise(info.handle == handle && info.device == 5, "what is announced is not whole");
    }
    const Unseen unseen;
    promise(new_id == ContextId::kNone || announced_.insert(id).second,
            "a context is announced twice");
    ids_.insert({handle, id});
  }
  void sets(std::uint64_t handle) {
    const ContextId new_id = tracking::context_set(handle);
    met(handle, thread_state.context, new_id);
  }
  void retains(std::uint64_t handle) {
    const ContextId new_id = tracking::primary_retained(handle, 5);
    met(handle, tracking::primary_context_id(5), new_id);
  }
  Outcome explore_all(std::vector<std::function<void()>> threads, std::size_t contexts) {
    Scenario scenario;
    scenario.begin = [this] {
      make_thread_local(&thread_state, sizeof thread_state);
      const Unseen unseen;
      announced_.clear();
      ids_.clear();
    };
    scenario.threads = std::move(threads);
    scenario.end = [this, contexts] {
      promise(tracking::context_count() == contexts, "the table has not each context once");
      const Unseen unseen;
      promise(ids_.size() == contexts, "a context has two ids");
      promise(announced_.size() == contexts, "a context is not announced");
    };
    return explore(scenario);
  }

 private:
  std::set<ContextId> announced_;                      // accesses are not explored
  std::set<std::pair<std::uint64_t, ContextId>> ids_;  // accesses are not explored
};

// Two threads make the same context current for the first time.
Outcome same_context() {
  Meeting meeting;
  const auto thread = [&] { meeting.sets(kHandle); };
  return meeting.explore_all({thread, thread}, 1);
}

// Three threads use two contexts.
Outcome two_contexts() {
  Meeting meeting;
  return meeting.explore_all({[&] { meeting.sets(kHandle); }, [&] { meeting.sets(kOtherHandle); },
                              [&] { meeting.sets(kHandle); }},
                             2);
}

// Two threads retain the same primary context.
Outcome same_primary() {
  Meeting meeting;
  const auto thread = [&] { meeting.retains(kHandle); };
  return meeting.explore_all({thread, thread}, 1);
}

// If the driver hands out a handle again after its context's end, the handle names a new context.
Outcome handle_again() {
  Meeting meeting;
  return meeting.explore_all({[&] {
                                meeting.sets(kHandle);
                                tracking::context_destroyed(kHandle);
                                meeting.sets(kHandle);
                              },
                              [&] { meeting.sets(kOtherHandle); }},
                             3);
}

// A pool ends while a thread allocates from another one. The driver is asked about the pools of the
// table, so a pool that has ended must not be there.
Outcome ended_pool() {
  Scenario scenario;
  scenario.begin = [] {
    make_thread_local(&thread_state, sizeof thread_state);
    tracking::pool_seen(kOtherHandle);
    tracking::pool_seen(kHandle);
  };
  scenario.threads = {[] { tracking::pool_ends(kOtherHandle); },
                      [] { tracking::pool_seen(kHandle); }};
  scenario.end = [] {
    tracking::pool_ends(kHandle);
    for (std::uint32_t i = 0; i < tracking::kMaxPools; ++i) {
      promise(tracking::pool_at(i) == 0, "a pool that has ended is in the table");
    }
  };
  return explore(scenario);
}

// One thread uses a context for the first time while another one starts the recording: the trace
// has a record of the context, written either at the start of the recording or by the thread
// itself.
class Start : public World {
 public:
  Start() : World({4}, /*has_begun=*/false) {
    starting_ = this;
    install_attach_thread([](bool) noexcept {
      while (control.session.load() == kStarting) wait_for_others();
      if (control.session.load() < kFirstSessionId) return false;
      starting_->attach();
      return true;
    });
  }
  void begin_recording() {
    control.session.store(kStarting);
    for (std::uint32_t id = 1; id <= tracking::context_count(); ++id) {
      const tracking::ContextInfo info = tracking::context_info(ContextId{id});
      if (info.handle == 0) continue;
      promise(info.device == 5, "what stands at the start is not whole");
      const Unseen unseen;
      told_.insert(info.handle);
    }
    start();
  }
  void meet(std::uint64_t handle) { record_context(tracking::context_seen(handle)); }
  Outcome explore_all(std::vector<std::function<void()>> threads) {
    Scenario whole = scenario(std::move(threads), /*may_die=*/false);
    whole.begin = [this] {
      begin();
      const Unseen unseen;
      told_.clear();
    };
    whole.end = [this] {
      const Unseen unseen;
      for_each_record_in_ring([&](std::uint32_t, const trace::RecordHeader& record) {
        if (record.kind != trace::RecordKind::kContext) return;
        promise(trace::as<trace::Context>(record).handle != 0, "a record is not whole");
        told_.insert(trace::as<trace::Context>(record).handle);
      });
      promise(told_.count(kHandle) == 1, "the trace is not told of a context");
    };
    return explore(whole);
  }

 private:
  static inline Start* starting_ = nullptr;
  std::set<std::uint64_t> told_;  // accesses are not explored
};
Outcome met_while_it_starts() {
  Start world;
  return world.explore_all({[&] { world.begin_recording(); }, [&] { world.meet(kHandle); }});
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      {"same_context", same_context}, {"same_primary", same_primary},
      {"two_contexts", two_contexts}, {"handle_again", handle_again},
      {"ended_pool", ended_pool},     {"met_while_it_starts", met_while_it_starts},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
