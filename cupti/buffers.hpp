// SPDX-License-Identifier: Apache-2.0
// The memory that CUPTI fills with records: one reserved range cut into buffers of equal size, so
// that an address shows whether it is a buffer of ours, and which.
//
//   free --take()--> with CUPTI --completed()--> filled --take_filled()--> being read --release()
//                                                       --let_go()
//
// - Any thread, no lock, no allocation. take() touches no memory.
// - A buffer may stay with CUPTI for ever (one a thread that stopped using CUDA).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::cupti {

class Buffers {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  static constexpr std::size_t kCount = 1024;
  // Touched when the range is reserved, so that CUPTI meets no page fault in them.
  static constexpr std::size_t kTouched = 4;

  // Reserves the range; true if there is one. The first call only, one thread.
  [[nodiscard]] bool reserve() noexcept;

  // nullptr if CUPTI has them all.
  std::uint8_t* take() noexcept;

  [[nodiscard]] bool is_ours(const std::uint8_t* buffer) const noexcept;
  // A buffer of ours came back. Its records are read later, or dropped with `discard`.
  void completed(std::uint8_t* buffer, std::size_t valid_bytes, std::size_t library,
                 bool discard) noexcept;

  // True if enough buffers are filled to read them.
  [[nodiscard]] bool many_are_filled() const noexcept {
    return filled_count_.load(std::memory_order_relaxed) > kCount / 8;  // a hint
  }

  struct Filled {
    std::uint8_t* bytes = nullptr;
    std::size_t valid_bytes = 0;
    std::size_t library = 0;
  };
  // nullptr if no buffer was completed before.
  [[nodiscard]] bool take_filled(Filled& filled) noexcept;
  void release(const Filled& filled) noexcept;
  // Drops a completed buffer unread, unless it is being read.
  void let_go(const std::uint8_t* buffer) noexcept;

  // In a forked child: all buffers are free.
  void reset() noexcept;

 private:
  enum class State : std::uint8_t { kFree, kWithCupti, kFilled, kBeingRead };
  struct Slot {
    std::atomic<State> state = State::kFree;
    std::size_t valid_bytes = 0;
    std::size_t library = 0;
  };

  std::size_t index_of(const std::uint8_t* buffer) const noexcept;
  std::uint8_t* find(State from, State to) noexcept;

  std::uint8_t* range_ = nullptr;
  Slot slots_[kCount];
  std::atomic<std::size_t> filled_count_ = 0;  // at least
};

}  // namespace gpumemtrace::cupti
