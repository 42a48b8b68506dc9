// SPDX-License-Identifier: Apache-2.0
// The part of memory that each thread may see: the stores of each atomic place, which of them each
// thread has seen, and which plain accesses race. Knows nothing of schedules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/exploration/explorer.hpp"

namespace gpumemtrace::exploration {

// Per thread, how many of its steps are known.
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

// The effects of a std::memory_order here.
struct Order {
  bool acquires = false;
  bool releases = false;
  bool newest = false;  // sequentially consistent
};

enum class PlainAccess { kRead, kWrite };

// - Before the threads begin, reset(). `thread` is the one that makes the access.
// - Values are stored by the caller; this keeps what they were.
class MemoryModel {
 public:
  void reset();

  // The stores that a load may return, newest last; at least one. `value` is what the place holds.
  std::size_t loadable(std::size_t thread, std::uintptr_t place, std::uint64_t value, Order order);
  // The chosen one of them, counted from the newest, 0, on.
  std::uint64_t load(std::size_t thread, std::uintptr_t place, std::size_t age, Order order);
  // `modifies`: the store is a read-modify-write and carries on what it read.
  void store(std::size_t thread, std::uintptr_t place, std::uint64_t old_value,
             std::uint64_t new_value, Order order, bool modifies);

  // Both return what is wrong, or an empty text.
  std::string plain(std::size_t thread, std::uintptr_t place, std::size_t bytes,
                    PlainAccess access);
  std::string atomic(std::size_t thread, std::uintptr_t place, std::size_t bytes, bool writes);

  // A step was made.
  void tick(std::size_t thread) { ++clocks_[thread][thread]; }

 private:
  struct Store {
    std::uint64_t value = 0;
    std::size_t thread = kMostThreads;  // none: it was there before
    std::uint32_t clock = 0;
    Clock published;  // learned by an acquiring load of it
  };
  struct Place {
    std::uint64_t execution = 0;
    std::vector<Store> stores;
    std::array<std::size_t, kMostThreads + 1> seen{};  // the newest that each thread has seen
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
  // True if all of it happened before the thread's present step.
  bool is_known(std::size_t thread, const Clock& accesses) const;

  // An entry of an earlier execution is emptied when it is used.
  std::uint64_t execution_ = 0;
  std::unordered_map<std::uintptr_t, Place> places_;
  std::unordered_map<std::uintptr_t, Word> words_;  // by address / 8
  std::array<Clock, kMostThreads + 1> clocks_;
};

}  // namespace gpumemtrace::exploration
