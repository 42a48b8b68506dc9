// SPDX-License-Identifier: Apache-2.0
// The memory that CUPTI fills with records: one reserved range cut into buffers of equal size, so
// that an address shows whether it lies in a buffer of ours, and in which one.
//
//   free --take()--> with CUPTI --completed()--> filled --take_filled()--> being read --release()
//                                                       --drop_unread()
//
// - Any thread, no lock, no allocation. take() touches no memory.
// - A buffer may stay with CUPTI for ever (one for each thread that stopped using CUDA).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::cupti {

class Buffers {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  static constexpr std::size_t kCount = 1024;
  // Buffers that are touched when the range is reserved, so that CUPTI meets no page fault in them.
  static constexpr std::size_t kTouched = 4;

  // Reserves the range, at the first call only; true if the range exists. For one thread.
  [[nodiscard]] bool reserve() noexcept;

  // Takes a free buffer for CUPTI; nullptr if no buffer is free.
  std::uint8_t* take() noexcept;

  [[nodiscard]] bool is_ours(const std::uint8_t* buffer) const noexcept;
  // Called when CUPTI returns a buffer of ours. Its records are read later, or dropped if
  // `discard`.
  void completed(std::uint8_t* buffer, std::size_t valid_bytes, std::size_t library,
                 bool discard) noexcept;

  // True if so many buffers are filled that they should be read now, by a count that may be
  // outdated.
  [[nodiscard]] bool many_are_filled() const noexcept {
    return filled_count_.load(std::memory_order_relaxed) > kCount / 8;
  }

  struct Filled {
    std::uint8_t* bytes = nullptr;
    std::size_t valid_bytes = 0;
    std::size_t library = 0;
  };
  // Takes a completed buffer to read; false if there is none.
  [[nodiscard]] bool take_filled(Filled& filled) noexcept;
  void release(const Filled& filled) noexcept;
  // Drops a completed buffer unread, unless it is being read.
  void drop_unread(const std::uint8_t* buffer) noexcept;

  // Called in a forked child: makes all buffers free.
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
  std::atomic<std::size_t> filled_count_ = 0;  // at least the number of filled buffers
};

}  // namespace gpumemtrace::cupti
