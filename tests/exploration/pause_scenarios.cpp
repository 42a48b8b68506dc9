// SPDX-License-Identifier: Apache-2.0
// Pauses of a recording in every order of the threads' steps: threads that stop and resume the
// recording meet each other, threads that record, the session's start and its end. The trace says
// that the recording is paused before any record is left out, and the last request holds.
#include <functional>
#include <vector>

#include "tests/exploration/session_world.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::exploration {
namespace {

bool tells_of_pause() {
  bool found = false;
  for_each_record_in_ring([&](std::uint32_t, const trace::RecordHeader& record) {
    found |= record.kind == trace::RecordKind::kMark &&
             trace::as<trace::Mark>(record).mark == trace::MarkKind::kStopped;
  });
  return found;
}

// A world whose threads have all attached before the exploration.
class Attached : public World {
 public:
  Attached(RingSize size, std::size_t threads) : World(size) {
    silence_messages();
    attach_before(threads);
    session().pool.is_emptied.store(true);
  }

  // Records a call; false if the recording is paused.
  bool use(std::uint32_t number) {
    if (recording(/*may_start=*/false)) {
      call(number);
      return true;
    }
    const Unseen unseen;
    something_is_left_out_ = true;
    return false;
  }
  void must_use(std::uint32_t number) {
    promise(use(number), "a thread that asked to record, and that nobody stopped since, does not");
  }
  void must_not_use(std::uint32_t number) {
    promise(!use(number), "a thread that asked for a pause, and that nobody ended, records");
  }
  void stop() { ask(false); }
  void start() { ask(true); }

  // `check` runs when all threads have ended and checks the final state.
  Outcome explore_all(std::vector<std::function<void()>> threads, std::function<void()> check,
                      bool may_die = false) {
    for (std::function<void()>& thread : threads) {
      thread = [this, work = std::move(thread)] {
        be_attached();
        work();
      };
    }
    Scenario whole = scenario(std::move(threads), may_die);
    whole.begin = [this] {
      begin();
      const Unseen unseen;
      something_is_left_out_ = false;
    };
    whole.end = [this, check = std::move(check)] {
      check();
      promise_is_told();
      end();
    };
    if (may_die) {
      whole.death = [this] {
        promise_is_told();
        die();
      };
    }
    return explore(whole);
  }

 private:
  static void ask(bool to_record) {
    const CallGuard guard;
    request_recording(guard, to_record);
  }
  void promise_is_told() {
    const Unseen unseen;
    promise(!something_is_left_out_ || tells_of_pause(),
            "a pause leaves out what a thread does, and the trace does not tell of it");
  }

  bool something_is_left_out_ = false;  // accesses are not explored
};

void is_going_on() { promise(is_recording(), "a request to record is lost"); }
void is_paused() { promise(control.session.load() == kPaused, "a request for a pause is lost"); }
void is_either() {
  const std::uint32_t word = control.session.load();
  promise(word == kPaused || word == the_session().id(), "the session is lost");
}

// A thread's records after its own request obey that request, whichever other threads record
// meanwhile; and the process may die at any step.
Outcome pause_while_others_record() {
  Attached world({8}, 2);
  return world.explore_all({[&] {
                              world.must_use(0);
                              world.stop();
                              world.must_not_use(1);
                              world.start();
                              world.must_use(2);
                            },
                            [&] {
                              world.use(100);
                              world.use(101);
                            }},
                           is_going_on, /*may_die=*/true);
}

// Both threads end with the same request, so that request holds, whatever they asked before.
Outcome pauses_that_end() {
  Attached world({8}, 2);
  const auto thread = [&] {
    world.stop();
    world.start();
  };
  return world.explore_all({thread, thread}, is_going_on);
}
Outcome resumes_that_end() {
  Attached world({8}, 2);
  const auto thread = [&] {
    world.start();
    world.stop();
  };
  return world.explore_all({thread, thread}, is_paused);
}

// One thread stops the recording, one starts it, a third one records: either request may hold.
Outcome pause_meets_resume() {
  Attached world({8}, 3);
  return world.explore_all({[&] { world.stop(); }, [&] { world.start(); }, [&] { world.use(200); }},
                           is_either);
}
// As pause_meets_resume(), for a session that was already paused once.
Outcome resume_meets_pause() {
  Attached world({8}, 3);
  return world.explore_all({[&] {
                              world.stop();
                              world.start();
                              world.use(0);
                            },
                            [&] { world.stop(); }, [&] { world.use(200); }},
                           is_either);
}

// The background thread stops for good while the program pauses and resumes the recording: the
// session stays off.
Outcome pause_meets_failure() {
  Attached world({8}, 2);
  return world.explore_all(
      {[&] {
         world.stop();
         world.start();
       },
       [] {
         const CallGuard guard;
         end_recording(guard, "the disk is full");
       }},
      [] { promise(control.session.load() == kOff, "a request brings back what has failed"); });
}

// The process ends while another thread pauses and resumes the recording: the ending thread's
// records are packed, and the ring's header tells of the end, paused or not.
Outcome pause_meets_end() {
  Attached world({8}, 3);
  return world.explore_all({[&] {
                              world.use(0);
                              process_ends(trace::MarkKind::kExit);
                              promise_own_is_packed();
                              const Unseen unseen;
                              promise(the_session().ring.header().exit_seen.load() != 0,
                                      "an end during a pause is not told of");
                            },
                            [&] {
                              world.stop();
                              world.start();
                            },
                            [&] { answer(world, 1); }},
                           is_going_on);
}

// A thread makes several requests while the session starts: its last one holds.
Outcome requests_meet_start() {
  Unbegun world({6});
  return world.explore_until({[&] { world.use(0); },
                              [&] {
                                world.request(false);
                                world.request(true);
                              }},
                             is_going_on);
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      {"pauses_that_end", pauses_that_end},
      {"resumes_that_end", resumes_that_end},
      {"pause_meets_resume", pause_meets_resume},
      {"pause_meets_failure", pause_meets_failure},
      {"pause_while_others_record", pause_while_others_record},
      {"requests_meet_start", requests_meet_start},
      {"resume_meets_pause", resume_meets_pause},
      {"pause_meets_end", pause_meets_end},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
