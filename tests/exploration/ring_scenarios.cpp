// SPDX-License-Identifier: Apache-2.0
// The recorder's ring in every order of the threads' steps: the stacks of free chunks and writers,
// the hand-out of chunks, the commit of records, sealing, packing, recycling, writers that pass
// from one thread to another, and the process's death at any of these steps.
#include <array>
#include <memory>
#include <string>

#include "preload/ring/control.hpp"
#include "tests/exploration/run_all.hpp"
#include "tests/exploration/session_stub.hpp"
#include "tests/exploration/world.hpp"

namespace gpumemtrace::exploration {
namespace {

// Three threads take indexes from a stack of free ones: no two threads hold the same index.
Outcome index_stack() {
  static IndexStack stack;
  static std::atomic<std::uint32_t> links[3];
  // Accesses are not explored: this is the true state, not what a thread sees of it.
  std::array<bool, 3> is_held = {};
  const auto take = [&] {
    const std::uint32_t index = stack.pop(links);
    if (index == kNoIndex) return index;
    const Unseen unseen;
    promise(!is_held[index], "two threads have the same index");
    is_held[index] = true;
    return index;
  };
  const auto give_back = [&](std::uint32_t index) {
    if (index == kNoIndex) return;
    {
      const Unseen unseen;
      is_held[index] = false;
    }
    stack.push(index, links);
  };
  Scenario scenario;
  scenario.begin = [&] {
    const Unseen unseen;
    is_held = {};
  };
  scenario.threads = {[&] { give_back(take()); },
                      [&] {
                        const std::uint32_t first = take();
                        take();
                        give_back(first);
                      }};
  scenario.end = [&] {
    int count = 0;
    for (std::uint32_t index = stack.pop(links); index != kNoIndex; index = stack.pop(links)) {
      promise(!is_held[index], "an index is free and held");
      promise(++count <= 3, "the stack has an index twice");
    }
    for (const bool held : is_held) count += held ? 1 : 0;
    promise(count == 3, "an index is lost");
  };
  for (std::uint32_t i = 0; i < 3; ++i) stack.push(i, links);
  Outcome outcome = explore(scenario);
  while (stack.pop(links) != kNoIndex) {
  }
  return outcome;
}

// Two threads fill chunks; the background thread packs and frees them.
Outcome hand_out() {
  World world({3});
  const auto thread = [&](std::uint32_t first, std::uint32_t count) {
    return [&world, first, count] {
      world.attach();
      for (std::uint32_t i = 0; i < count; ++i) world.record(first + i);
    };
  };
  return explore(
      world.scenario({thread(0, 3), thread(100, 1), [&] { world.pack_sealed(); }}, false));
}

// One chunk is used again and again: it is filled as soon as it has been packed and recycled.
Outcome recycling() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   for (std::uint32_t i = 0; i < 5; ++i) world.record(i);
                                 },
                                 [&] {
                                   for (int i = 0; i < 2; ++i) world.pack_sealed();
                                 }},
                                false));
}

// Chunks with calls that have not returned stay in the ring, and the packer continues behind the
// records that it has already packed.
Outcome active_chunks() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.call(0);
                                   world.record(1);
                                   world.record(2);
                                   world.call(3);
                                 },
                                 [&] {
                                   world.pack_active();
                                   world.pack_sealed();
                                   world.pack_active();
                                 }},
                                false));
}

// The ring is too small: records that do not fit are counted as dropped.
Outcome full_ring() {
  World world({2});
  const auto thread = [&](std::uint32_t first) {
    return [&world, first] {
      world.attach();
      for (std::uint32_t i = 0; i < 3; ++i) world.record(first + i);
    };
  };
  return explore(world.scenario({thread(0), thread(100)}, false));
}

// Two threads find no free chunk, and the file thread makes the ring larger.
Outcome growth() {
  World world({0, true});
  const auto thread = [&](std::uint32_t first) {
    return [&world, first] {
      world.attach_with_large_chunks();
      world.record(first);
    };
  };
  return explore(world.scenario_with_file_thread({thread(0), thread(100)}, false));
}

// The background thread iterates over the ring's chunks while the ring is being made larger.
Outcome walk_in_growth() {
  World world({0, true});
  return explore(world.scenario_with_file_thread({[&] {
                                                    world.attach_with_large_chunks();
                                                    world.record(0);
                                                  },
                                                  [&] { world.pack_active(); }},
                                                 false));
}

// The background thread sleeps until it is woken: a chunk that a thread seals while few chunks are
// free is packed even if nothing else wakes the background thread, and also while another thread
// wakes it for something else.
Outcome pauses() {
  World world({4});
  static std::atomic<std::uint32_t> packed;  // 1 once a span is packed
  world.attach_before(1);
  Scenario scenario =
      world.scenario({[&world] {
                        world.be_attached();
                        for (std::uint32_t i = 0; i < 3; ++i) world.record(i);
                        while (packed.load() == 0) wait_for_change(packed, 0, 1, 1);
                      },
                      [] { background_wake.wake(); },
                      [&world] {
                        RoundPause pause;
                        while (packed.load() == 0) {
                          pause.round_begins();
                          const auto append = [&](const Span& span) {
                            packed.store(1);
                            wake_all(packed);
                            return world.append(span);
                          };
                          preload::pack_sealed(world.session().ring, append);
                          pause.until_woken([&] {
                            return packed.load() != 0 || world.session().ring.needs_round();
                          });
                        }
                      }},
                     false);
  scenario.begin = [begin = scenario.begin] {
    begin();
    packed.store(0);
  };
  return explore(scenario);
}

// The process dies while the ring is made larger or while its new chunks are used.
Outcome death_in_growth() {
  World world({0, true});
  return explore(world.scenario_with_file_thread({[&] {
                                                   world.attach_with_large_chunks();
                                                   world.record(0);
                                                 }},
                                                 true));
}

// One thread has the file thread do two pieces of work and waits for each; another one sends a
// request and waits until it is served.
Outcome file_work() {
  World world({0});
  static int value;  // not atomic: the hand-over orders the accesses
  static std::atomic<std::uint32_t> served;
  file_thread::serve(
      [](void*) noexcept {
        served.store(1);
        wake_all(served);
      },
      nullptr);
  Scenario scenario =
      world.scenario_with_file_thread({[] {
                                         for (int i = 1; i <= 2; ++i) {
                                           file_thread::run([] { ++value; });
                                           promise(value == i, "what was asked for is not done");
                                         }
                                       },
                                       [] {
                                         file_thread::request();
                                         while (served.load() == 0)
                                           wait_for_change(served, 0, 1, 1);
                                       }},
                                      false);
  scenario.begin = [begin = scenario.begin] {
    begin();
    value = 0;
    served.store(0);
  };
  scenario.end = [] {};
  return explore(scenario);
}

// A thread ends and returns its writer; a new thread takes that writer and continues in its chunk.
Outcome change_of_hands() {
  World world({3});
  const auto thread = [&](std::uint32_t first) {
    return [&world, first] {
      world.attach();
      world.record(first);
      return_writer(world.session().pool);
    };
  };
  return explore(world.scenario({thread(0), thread(100)}, false));
}

// The background thread reclaims the writer of a thread that died, while another thread returns its
// own and a third one begins.
std::array<std::atomic<bool>, kMostThreads> dead;
bool is_dead(std::uint32_t thread_id) { return dead[thread_id - 1].load(); }

Outcome reclaimed_writers() {
  World world({4});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.record(0);
                                   return_writer(world.session().pool);
                                   dead[0].store(true);
                                 },
                                 [&] {
                                   world.attach();
                                   world.record(100);
                                   world.record(101);
                                 },
                                 [&] { reclaim_writers(world.session().pool, is_dead); }},
                                false));
}

// A thread dies with a writer that it took over from another thread, and the next thread begins
// with that writer.
Outcome abandoned_writer() {
  World world({4});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.record(0);
                                   return_writer(world.session().pool);
                                   world.attach();
                                   world.record(1);
                                   dead[0].store(true);
                                 },
                                 [&] {
                                   reclaim_writers(world.session().pool, is_dead);
                                   world.pack_sealed();
                                   world.attach();
                                   world.record(100);
                                 }},
                                false));
}

// A signal handler jumps out of the recorder before any of the recorder's accesses: all records
// made later are there. The jump may lose a chunk of the ring.
Outcome left_anywhere() {
  World world({6});
  Scenario scenario = world.scenario(
      {
          [&] {
            world.attach();
            run_until_left([&] {
              world.record(0);
              world.call(1);
              world.record(2);
              world.record(3);
            });
            world.call(4);
            for (std::uint32_t i = 5; i < 8; ++i) world.record(i);
          },
      },
      false);
  scenario.end = [&] {
    world.ledger().check_left(world.session().ring);
    world.pack_sealed();
    world.pack_active();
    world.ledger().check_left(world.session().ring);
  };
  return explore(scenario);
}

// The process dies before any store of the recording thread or of the packing thread.
Outcome death() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.record(0);
                                   world.call(1);
                                   world.record(2);
                                   world.record(3);
                                 },
                                 [&] {
                                   world.pack_active();
                                   world.pack_sealed();
                                 }},
                                true));
}

// The process dies while a chunk is used again: its old records must not come back as records of
// its new owner.
Outcome death_in_reuse() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   for (std::uint32_t i = 0; i < 5; ++i) world.record(i);
                                 },
                                 [&] { world.pack_sealed(); }},
                                true));
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      // Quick scenarios come first: a run with a mutant ends at the first one that notices it.
      {"index_stack", index_stack},
      {"change_of_hands", change_of_hands},
      {"abandoned_writer", abandoned_writer},
      {"reclaimed_writers", reclaimed_writers},
      {"death_in_reuse", death_in_reuse},
      {"full_ring", full_ring},
      {"file_work", file_work},
      {"death_in_growth", death_in_growth},
      {"pauses", pauses},
      {"growth", growth},
      {"walk_in_growth", walk_in_growth},
      {"active_chunks", active_chunks},
      {"death", death},
      {"recycling", recycling},
      {"left_anywhere", left_anywhere},
      {"hand_out", hand_out},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
