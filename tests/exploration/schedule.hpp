// SPDX-License-Identifier: Apache-2.0
// The tree of decisions: which thread makes the next step, which of several values a load returns.
// Walks it depth first and leaves out orders that no step can tell apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/exploration/memory_model.hpp"

namespace gpumemtrace::exploration {

// The part of a step by which it meets others.
struct Operation {
  std::uintptr_t place = 0;  // 0: it touches no atomic place
  bool writes = false;
  bool changes_file = false;  // meets only the process's death
  bool is_death = false;

  [[nodiscard]] bool meets(const Operation& other) const {
    if (is_death || other.is_death) return changes_file || other.changes_file;
    return place != 0 && place == other.place && (writes || other.writes);
  }
};

using ThreadSet = std::uint32_t;  // a bit a thread

class Schedule {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  explicit Schedule(Reduction reduction) : reduction_(reduction) {}

  // Before an execution; the first has nothing decided.
  void restart();
  // The next execution's decisions; false if all were tried.
  bool advance();

  // The thread that makes the next step, of those that have one to make. kNone: every order that
  // goes on from here was tried elsewhere.
  std::size_t next_thread(ThreadSet enabled, const std::array<Operation, kMostThreads + 1>& next,
                          std::size_t preferred);
  // One of `options` values, 0 first.
  std::size_t next_value(std::size_t options);

  // The threads of the present execution's steps, in order.
  [[nodiscard]] std::vector<std::size_t> threads() const;

 private:
  struct Decision {
    bool is_value = false;
    std::size_t options = 0;
    std::size_t chosen = 0;
    ThreadSet enabled = 0;
    ThreadSet wanted = 0;    // to be tried
    ThreadSet done = 0;      // tried
    ThreadSet sleeping = 0;  // tried in an earlier branch, and nothing has met them since
  };
  // A step of the present execution.
  struct Event {
    std::size_t thread = kNone;
    std::uint32_t number = 0;  // among the thread's
    std::size_t decision = 0;
    Clock clock;  // of steps that happened before it, itself included
  };
  // The last steps at a place, as indexes of events.
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
  Meeting file_;  // deaths, and what they meet
  std::array<Clock, kMostThreads + 1> clocks_;
};

}  // namespace gpumemtrace::exploration
