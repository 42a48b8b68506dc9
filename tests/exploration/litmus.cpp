// SPDX-License-Identifier: Apache-2.0
// Tests the explorer with small programs whose outcomes are known, and compares the outcomes of the
// reduced set of orders with those of all orders. A tool that finds no fault proves something only
// if it finds known faults.
#include <atomic>
#include <cstdio>
#include <random>
#include <set>
#include <string>

#include "tests/exploration/explorer.hpp"
#include "tests/exploration/run_all.hpp"

namespace gpumemtrace::exploration {
namespace {

constexpr unsigned kRandomPrograms = 4;

std::atomic<int> first_place = 0;
std::atomic<int> second_place = 0;
int plain_place = 0;
int results[kMostThreads][4];  // a row for each thread, written by that thread alone

void forget_results() {
  for (auto& row : results) {
    for (int& value : row) value = -1;
  }
}

// All outcomes that a program can have, each as a text of its results in order.
struct Outcomes {
  std::set<std::string> seen;
  Outcome outcome;
};

Outcomes outcomes_of(std::vector<std::function<void()>> threads,
                     Reduction reduction = Reduction::kOn) {
  Outcomes outcomes;
  Scenario scenario;
  scenario.begin = forget_results;
  scenario.threads = std::move(threads);
  scenario.end = [&outcomes] {
    const Unseen unseen;
    std::string text;
    for (const auto& row : results) {
      for (const int value : row) {
        if (value >= 0) text += std::to_string(value);
      }
    }
    text += " " + std::to_string(first_place.load()) + std::to_string(second_place.load());
    outcomes.seen.insert(text);
  };
  outcomes.outcome = explore(scenario, reduction);
  return outcomes;
}

bool expect(const char* what, const Outcomes& got, const std::set<std::string>& expected) {
  if (got.seen == expected && got.outcome.violation.empty()) return true;
  std::printf("litmus: %s: other outcomes than the memory model's:%s\n", what,
              got.outcome.violation.c_str());
  for (const std::string& text : got.seen) std::printf("  %s\n", text.c_str());
  return false;
}

bool store_buffering() {
  const auto thread = [](std::atomic<int>& own, std::atomic<int>& other, int row) {
    own.store(1, std::memory_order_release);
    results[row][0] = other.load(std::memory_order_acquire);
  };
  return expect("both may read what was before",
                outcomes_of({[=] { thread(first_place, second_place, 0); },
                             [=] { thread(second_place, first_place, 1); }}),
                {"00 11", "01 11", "10 11", "11 11"});
}

bool lost_update() {
  const auto thread = [] { first_place.store(first_place.load() + 1); };
  return expect("an increment in two steps may be lost", outcomes_of({thread, thread}),
                {" 10", " 20"});
}

bool no_lost_update() {
  const auto thread = [] { first_place.fetch_add(1, std::memory_order_relaxed); };
  return expect("an increment in one step is not lost", outcomes_of({thread, thread, thread}),
                {" 30"});
}

bool coherence() {
  return expect("nobody reads an older value after a newer one",
                outcomes_of({[] {
                               first_place.store(1, std::memory_order_relaxed);
                               first_place.store(2, std::memory_order_relaxed);
                             },
                             [] {
                               results[0][0] = first_place.load(std::memory_order_relaxed);
                               results[0][1] = first_place.load(std::memory_order_relaxed);
                             }}),
                {"00 20", "01 20", "02 20", "11 20", "12 20", "22 20"});
}

Outcomes pass_message(std::memory_order store_order, std::memory_order load_order) {
  return outcomes_of({[=] {
                        plain_place = 1;
                        first_place.store(1, store_order);
                      },
                      [=] {
                        if (first_place.load(load_order) == 1) results[0][0] = plain_place;
                      }});
}

bool message_passing() {
  bool good =
      expect("what was published is seen",
             pass_message(std::memory_order_release, std::memory_order_acquire), {" 10", "1 10"});
  for (const auto& [store_order, load_order] :
       {std::pair{std::memory_order_relaxed, std::memory_order_acquire},
        std::pair{std::memory_order_release, std::memory_order_relaxed}}) {
    if (!pass_message(store_order, load_order).outcome.violation.empty()) continue;
    std::printf("litmus: a race through relaxed accesses was not found\n");
    good = false;
  }
  return good;
}

bool death_between_stores() {
  static int file[2];
  std::set<std::string> seen;
  Scenario scenario;
  scenario.begin = [] { watch_file(file, sizeof file); };
  scenario.threads = {[] {
    file[0] = 1;
    file[1] = 1;
  }};
  scenario.end = [] {};
  scenario.death = [&seen] {
    const Unseen unseen;
    seen.insert(std::to_string(file[0]) + std::to_string(file[1]));
  };
  explore(scenario);
  if (seen == std::set<std::string>{"00", "10", "11"}) return true;
  std::printf("litmus: a death between two stores was not tried\n");
  return false;
}

// A program of random steps has the same outcomes with the reduction and without it.
bool random_program(unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::function<void()>> threads;
  for (int row = 0; row < 3; ++row) {
    std::vector<unsigned> steps;
    for (unsigned i = 0; i < 2 + random() % 2; ++i)
      steps.push_back(static_cast<unsigned>(random()) >> 3);
    threads.emplace_back([steps, row] {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        std::atomic<int>& place = steps[i] % 2 == 0 ? first_place : second_place;
        const int value = row * 2 + 1;
        switch (steps[i] / 2 % 4) {
          case 0:
            place.store(value, std::memory_order_release);
            break;
          case 1:
            results[row][i] = place.fetch_add(1, std::memory_order_acq_rel);
            break;
          default:
            results[row][i] = place.load(std::memory_order_acquire);
        }
      }
    });
  }
  const Outcomes reduced = outcomes_of(threads);
  const Outcomes all = outcomes_of(threads, Reduction::kOff);
  if (reduced.seen == all.seen && reduced.outcome.executions <= all.outcome.executions) return true;
  std::printf("litmus: program %u has %zu outcomes, with the reduction %zu\n", seed,
              all.seen.size(), reduced.seen.size());
  return false;
}

}  // namespace

bool litmus_tests_hold() {
  bool good = store_buffering() && lost_update() && no_lost_update() && coherence() &&
              message_passing() && death_between_stores();
  // Seeds begin at 1, because the generator treats 0 as 1.
  for (unsigned seed = 1; good && seed <= kRandomPrograms; ++seed) good = random_program(seed);
  return good;
}

}  // namespace gpumemtrace::exploration
