// SPDX-License-Identifier: Apache-2.0
// Native walks of one thread, for when they come again.
//
// A training step repeats, and so do its walks. Following frames by their rules waits for memory
// twice a frame: only the rule gives the address of the next frame. An expected walk has the
// addresses of its words beforehand, so all are read at once, and one hash of them shows whether it
// is the same walk. It is small, because between two walks the program takes its room in the
// processor's caches.
#pragma once

#include <string.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::native {

// A walk, as the places of all words that it read: the same words at these places lead to the same
// frames. The step out of a frame depends on the return address, whose rule stays the same while no
// library is unloaded, and on rbp if the rule asks for it.
struct alignas(64) RememberedWalk {
  static constexpr std::size_t kMaxPlaces = 144;
  static constexpr std::uint16_t kInRegister = 0xffff;

  std::uint64_t hash;                // of the frames
  std::uint64_t words;               // hash of the words
  std::uint32_t generation;          // the number of libraries unloaded before
  std::uint16_t capacity;            // the most frames wanted; 0: nothing is remembered here
  std::uint8_t return_addresses;     // so many places hold one; the first was the caller's
  std::uint8_t rbps;                 // those after them hold what a frame is found by
  std::uint32_t label;               // the caller's, from 0 on
  std::uint16_t places[kMaxPlaces];  // in words above the stack pointer with which the walk began
};
static_assert(sizeof(RememberedWalk) == 320);

// Belongs to one thread at a time. All zeros remembers nothing.
//
// Walks mostly come in the same order as before, so the next one can be fetched before it is
// needed. If it does not match, the depth of the stack distinguishes most ways into a hook, because
// their frames add up to different sums; the walk before distinguishes those of one depth.
class UnwindCache {
 public:
  using Slot = std::uint8_t;

  RememberedWalk& walk(Slot slot) noexcept { return walks_[slot]; }
  // The walk that followed the last time that the last few walks were these.
  Slot follower() const noexcept { return followers_[history_]; }
  // The walk that came the last time that a walk began there after the same one as now.
  Slot seen_at(std::uint64_t stack_pointer) const noexcept {
    return seen_[place_of(stack_pointer)];
  }

  void follower_came() noexcept { append(follower()); }
  void seen_came(Slot slot) noexcept {
    followers_[history_] = slot;
    append(slot);
  }
  // Fetches the memory of the expected walk before it is needed.
  void fetch_follower() const noexcept {
    constexpr std::size_t kLine = 64;
    const auto* const begin = reinterpret_cast<const char*>(&walks_[follower()]);
    __builtin_prefetch(begin);
    __builtin_prefetch(begin + kLine);
  }

  // Another walk came. It replaces the oldest one.
  void other_came(std::uint64_t stack_pointer, const RememberedWalk& walk) noexcept {
    Slot& slot = by_words_[walk.words % kHints];
    if (!is_same(walks_[slot], walk)) {
      slot = oldest_++;
      // A signal handler may leave this function by longjmp: half a walk must not be used.
      walks_[slot].capacity = 0;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      memcpy(walks_[slot].places, walk.places, place_bytes_of(walk));
      walks_[slot].hash = walk.hash;
      walks_[slot].words = walk.words;
      walks_[slot].generation = walk.generation;
      walks_[slot].return_addresses = walk.return_addresses;
      walks_[slot].rbps = walk.rbps;
      walks_[slot].label = 0;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      walks_[slot].capacity = walk.capacity;
    }
    seen_[place_of(stack_pointer)] = slot;
    seen_came(slot);
  }

 private:
  static constexpr std::size_t kWalks = 256;  // as many as a slot's number can tell
  static constexpr std::size_t kHints = 1024;
  static constexpr std::size_t kHistories = 1024;
  static constexpr int kSeenBits = 12;  // a training uses some hundred; few of them meet

  void append(Slot slot) noexcept {
    history_ = (history_ << 3 ^ slot) % kHistories;
    last_ = slot;
  }
  std::size_t place_of(std::uint64_t stack_pointer) const noexcept {
    const std::uint64_t key = (stack_pointer / sizeof(std::uint64_t)) ^ std::uint64_t{last_} << 48;
    return key * 0x9e37'79b9'7f4a'7c15u >> (64 - kSeenBits);
  }
  static std::size_t place_bytes_of(const RememberedWalk& walk) noexcept {
    return (std::size_t{walk.return_addresses} + walk.rbps) * sizeof walk.places[0];
  }
  [[nodiscard]] static bool is_same(const RememberedWalk& left,
                                    const RememberedWalk& right) noexcept {
    return left.hash == right.hash && left.words == right.words &&
           left.generation == right.generation && left.capacity == right.capacity &&
           left.return_addresses == right.return_addresses && left.rbps == right.rbps &&
           memcmp(left.places, right.places, place_bytes_of(left)) == 0;
  }

  std::size_t history_;  // the last walks, the older the less of them
  Slot last_;
  Slot oldest_;  // is taken next
  Slot by_words_[kHints];
  Slot followers_[kHistories];
  Slot seen_[std::size_t{1} << kSeenBits];
  RememberedWalk walks_[kWalks];
};

}  // namespace gpumemtrace::preload::native
