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

// One frame and the step out of it. That depends on the return address, whose rule stays the same
// while no library is unloaded, on rbp where the rule asks for it, and on the two words it reads.
struct RememberedFrame {
  static constexpr std::uint32_t kNotSaved = ~std::uint32_t{0};

  std::uint64_t return_address;
  std::uint64_t hash;  // of the walk up to this frame
  // In bytes above the stack pointer with which the walk began.
  std::uint32_t frame;      // the frame's address; the next return address stands just below it
  std::uint32_t saved_rbp;  // where the caller's rbp stands
  std::uint32_t from_rbp;   // the frame's address less rbp; 0: it does not depend on rbp
};

struct alignas(64) RememberedWalk {
  static constexpr std::size_t kMaxFrames = 40;

  std::uint64_t hash;        // of the whole walk, also of what is not remembered here
  std::uint32_t generation;  // the number of libraries unloaded before
  std::uint16_t count;       // 0: nothing is remembered here
  bool is_whole;             // the last frame is the outermost
  RememberedFrame frames[kMaxFrames];
};

// Belongs to one thread at a time. All zeros remembers nothing.
class WalkMemory {
 public:
  // What followed last time that the last few walks were these.
  const RememberedWalk& expected() const noexcept { return walks_[expected_[history_]]; }
  void expected_came() noexcept { append(expected_[history_]); }

  // Another one came. It takes the place of the one that was remembered first.
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

  static void write(RememberedWalk& place, const RememberedWalk& walk) noexcept {
    // A signal handler may leave this function by longjmp: half a walk must not be believed.
    place.count = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    place.hash = walk.hash;
    place.generation = walk.generation;
    place.is_whole = walk.is_whole;
    memcpy(place.frames, walk.frames, walk.count * sizeof walk.frames[0]);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    place.count = walk.count;
  }

  std::size_t history_;                // the last walks, the older the less of them
  std::uint8_t oldest_;                // place that is taken next
  std::uint8_t by_hash_[kHistories];   // hints
  std::uint8_t expected_[kHistories];  // by history
  RememberedWalk walks_[kWalks];
};

}  // namespace gpumemtrace::preload::native
