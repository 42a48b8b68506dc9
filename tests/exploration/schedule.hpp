// SPDX-License-Identifier: Apache-2.0
// The tree of decisions: the thread that makes the next step, and the value that a load returns.
// Walks the tree depth first and leaves out orders that no step can tell apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/exploration/memory_model.hpp"

namespace gpumemtrace::exploration {

// The part of a step that decides if it conflicts with ("meets") another thread's step.
struct Operation {
  std::uintptr_t place = 0;  // 0 = no atomic place is touched
  bool writes = false;
  bool changes_file = false;  // conflicts only with the process's death
  bool is_death = false;

  [[nodiscard]] bool meets(const Operation& other) const {
    if (is_death || other.is_death) return changes_file || other.changes_file;
    return place != 0 && place == other.place && (writes || other.writes);
  }
};

using ThreadSet = std::uint32_t;  // one bit per thread

class Schedule {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  explicit Schedule(Reduction reduction) : reduction_(reduction) {}

  // Called before each execution; for the first one nothing is decided yet.
  void restart();
  // Chooses the decisions of the next execution; false if all executions were tried.
  bool advance();

  // Chooses the thread that makes the next step among `enabled`. kNone: every order that continues
  // from here was already tried.
  std::size_t next_thread(ThreadSet enabled, const std::array<Operation, kMostThreads + 1>& next,
                          std::size_t preferred);
  // Chooses one of `options` values; 0 is tried first.
  std::size_t next_value(std::size_t options);

  // The threads of the present execution's steps, in the order of the steps.
  [[nodiscard]] std::vector<std::size_t> threads() const;

 private:
  struct Decision {
    bool is_value = false;
    std::size_t options = 0;
    std::size_t chosen = 0;
    ThreadSet enabled = 0;
    ThreadSet wanted = 0;    // threads to try
    ThreadSet done = 0;      // threads tried
    ThreadSet sleeping = 0;  // threads tried in an earlier branch; no step has conflicted since
  };
  // A step of the present execution.
  struct Event {
    std::size_t thread = kNone;
    std::uint32_t number = 0;  // the step's number among its thread's
    std::size_t decision = 0;
    Clock clock;  // the steps that happened before it, and itself
  };
  // The last steps at one atomic place, as indexes into events_.
  struct Meeting {
    Meeting() { last_reads.fill(kNone); }
    std::size_t last_write = kNone;
    std::array<std::size_t, kMostThreads + 1> last_reads;
    Clock writes;
    Clock reads;
  };

  void find_races(std::size_t thread, const Operation& operation,
                  std::vector<std::size_t>& races) const;
  void reverse(std::size_t race);
  void record_step(std::size_t thread, const Operation& operation, std::size_t decision);
  void record_at(Meeting& meeting, bool writes, std::size_t thread, std::size_t index);

  const Reduction reduction_;
  std::vector<Decision> path_;
  std::size_t position_ = 0;
  ThreadSet sleeping_ = 0;
  std::vector<Event> events_;
  std::unordered_map<std::uintptr_t, Meeting> meetings_;
  Meeting file_;  // the process's deaths and the stores that conflict with them
  std::array<Clock, kMostThreads + 1> clocks_;
};

}  // namespace gpumemtrace::exploration
