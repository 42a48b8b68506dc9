// SPDX-License-Identifier: Apache-2.0
// The part of memory that each thread may see: the stores to each atomic place, those that each
// thread has seen, and the plain accesses that race. Independent of schedules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/exploration/explorer.hpp"

namespace gpumemtrace::exploration {

// A vector clock: for each thread, the number of its steps that are known.
class Clock {
 public:
  void join(const Clock& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] < other.counts_[i]) counts_[i] = other.counts_[i];
    }
  }
  std::uint32_t& operator[](std::size_t thread) { return counts_[thread]; }
  std::uint32_t operator[](std::size_t thread) const { return counts_[thread]; }

 private:
  std::array<std::uint32_t, kMostThreads + 1> counts_{};
};

// The effects of a std::memory_order in this model.
struct Order {
  bool acquires = false;
  bool releases = false;
  bool newest = false;  // sequentially consistent
};

enum class PlainAccess { kRead, kWrite };

// - Call reset() before the threads begin. `thread` is the one that makes the access.
// - The caller stores the values; the model keeps the history of each place.
class MemoryModel {
 public:
  void reset();

  // The number of stores that a load may return, the newest included; at least one. `value` is what
  // the place holds.
  std::size_t loadable(std::size_t thread, std::uintptr_t place, std::uint64_t value, Order order);
  // Loads the store of that age among the loadable() ones (0 is the newest); returns its value.
  std::uint64_t load(std::size_t thread, std::uintptr_t place, std::size_t age, Order order);
  // `modifies`: the store is part of a read-modify-write and continues the release sequence of the
  // store that it read.
  void store(std::size_t thread, std::uintptr_t place, std::uint64_t old_value,
             std::uint64_t new_value, Order order, bool modifies);

  // plain() and atomic() return a description of a data race, or an empty text.
  std::string plain(std::size_t thread, std::uintptr_t place, std::size_t bytes,
                    PlainAccess access);
  std::string atomic(std::size_t thread, std::uintptr_t place, std::size_t bytes, bool writes);

  // `thread` has made a step.
  void tick(std::size_t thread) { ++clocks_[thread][thread]; }

 private:
  struct Store {
    std::uint64_t value = 0;
    std::size_t thread = kMostThreads;  // kMostThreads = stored before the threads began
    std::uint32_t clock = 0;
    Clock published;  // what an acquiring load of this store learns
  };
  struct Place {
    std::uint64_t execution = 0;
    std::vector<Store> stores;
    std::array<std::size_t, kMostThreads + 1> seen{};  // newest store seen by each thread
  };
  // The last access of each thread to one byte.
  struct Byte {
    Clock plain_reads;
    Clock plain_writes;
    Clock atomic_reads;
    Clock atomic_writes;
    bool has_place = false;
  };
  struct Word {
    std::uint64_t execution = 0;
    std::array<Byte, 8> bytes;
  };

  Byte& byte_at(std::uintptr_t place);
  Place& place_at(std::uintptr_t place, std::uint64_t value);
  // True if all `accesses` of other threads happened before the thread's present step.
  bool is_known(std::size_t thread, const Clock& accesses) const;

  // Number of the execution; an entry of an earlier execution is emptied when it is used.
  std::uint64_t execution_ = 0;
  std::unordered_map<std::uintptr_t, Place> places_;
  std::unordered_map<std::uintptr_t, Word> words_;  // by address / 8
  std::array<Clock, kMostThreads + 1> clocks_;
};

}  // namespace gpumemtrace::exploration
