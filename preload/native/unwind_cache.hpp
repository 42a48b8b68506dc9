// SPDX-License-Identifier: Apache-2.0
// Native walks of one thread, for when they come again.
//
// A training step repeats, and so do its walks, in the same order. To follow frames by their rules
// is to wait for memory twice a frame: only the rule says where the next frame is. A walk that is
// expected says beforehand where each return address must stand, so all are read at once and only
// compared. What is found is the same either way.
#pragma once

#include <string.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::native {

// A walk, as the words by which it is known again: if the stack has them, it is the same walk. The
// step out of a frame depends on the return address, whose rule stays the same while no library is
// unloaded, and on rbp where the rule asks for it.
struct alignas(64) RememberedWalk {
  static constexpr std::size_t kMaxFrames = 40;
  static constexpr std::size_t kMaxByRbp = 24;
  static constexpr std::uint32_t kNotSaved = ~std::uint32_t{0};

  // A frame whose address the rule tells from rbp.
  struct ByRbp {
    std::uint32_t frame;  // its index
    std::uint32_t rbp;    // what rbp must be there
  };

  std::uint64_t hash;        // of the whole walk, also of what is not remembered here
  std::uint32_t generation;  // the number of libraries unloaded before
  std::uint16_t count;       // 0: nothing is remembered here
  std::uint8_t by_rbp_count;
  bool is_whole;  // the last frame is the outermost
  std::uint64_t return_addresses[kMaxFrames];
  // Places on the stack, in bytes above the stack pointer with which the walk began.
  std::uint32_t frames[kMaxFrames];  // a frame's address; the next return address is just below it
  ByRbp by_rbp[kMaxByRbp];
  std::uint32_t rbp_places[kMaxFrames];  // where a frame's rbp stands; kNotSaved: in the register
  std::uint64_t hashes[kMaxFrames];      // of the walk up to this frame
};

// Asks for what is read first of a walk.
inline void fetch(const RememberedWalk& walk) noexcept {
  constexpr std::size_t kLine = 64;
  const auto* const begin = reinterpret_cast<const char*>(&walk);
  constexpr std::size_t kBytes = offsetof(RememberedWalk, by_rbp) + kLine;
  for (std::size_t at = 0; at < kBytes; at += kLine) __builtin_prefetch(begin + at);
}

// The first `count` frames, and how they are found.
inline void copy_steps(RememberedWalk& to, const RememberedWalk& from, std::size_t count) noexcept {
  const auto copy = [count](auto& target, const auto& source) noexcept {
    memcpy(target, source, count * sizeof source[0]);
  };
  copy(to.return_addresses, from.return_addresses);
  copy(to.frames, from.frames);
  copy(to.rbp_places, from.rbp_places);
  copy(to.hashes, from.hashes);
  to.by_rbp_count = 0;
  while (to.by_rbp_count < from.by_rbp_count && from.by_rbp[to.by_rbp_count].frame < count) {
    to.by_rbp[to.by_rbp_count] = from.by_rbp[to.by_rbp_count];
    ++to.by_rbp_count;
  }
}

// Belongs to one thread at a time. All zeros remembers nothing.
class UnwindCache {
 public:
  // What followed last time that the last few walks were these.
  const RememberedWalk& expected() const noexcept { return walks_[expected_[history_]]; }
  void expected_came() noexcept { append(expected_[history_]); }
  // Asks for the memory of what is expected next, before it is needed.
  void fetch_expected() const noexcept { fetch(expected()); }

  // Another one came. It replaces the one that was remembered first.
  void other_came(const RememberedWalk& walk) noexcept {
    std::uint8_t& by_hash = by_hash_[walk.hash % kHistories];
    if (walks_[by_hash].hash != walk.hash || walks_[by_hash].generation != walk.generation) {
      by_hash = oldest_;
      oldest_ = static_cast<std::uint8_t>((oldest_ + 1) % kWalks);
      write(walks_[by_hash], walk);
    }
    expected_[history_] = by_hash;
    append(by_hash);
  }

 private:
  static constexpr std::size_t kWalks = 128;
  static constexpr std::size_t kHistories = 1024;

  void append(std::uint8_t index) noexcept { history_ = (history_ << 3 ^ index) % kHistories; }

  static void write(RememberedWalk& slot, const RememberedWalk& walk) noexcept {
    // A signal handler may leave this function by longjmp: half a walk must not be believed.
    slot.count = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    slot.hash = walk.hash;
    slot.generation = walk.generation;
    slot.is_whole = walk.is_whole;
    copy_steps(slot, walk, walk.count);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    slot.count = walk.count;
  }

  std::size_t history_;                // the last walks, the older the less of them
  std::uint8_t oldest_;                // slot that is taken next
  std::uint8_t by_hash_[kHistories];   // hints
  std::uint8_t expected_[kHistories];  // by history
  RememberedWalk walks_[kWalks];
};

}  // namespace gpumemtrace::preload::native
