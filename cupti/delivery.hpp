// SPDX-License-Identifier: Apache-2.0
// Copies records into the program's buffers.
//
// As with CUPTI alone, a program that collects gives CUPTI a buffer early on, gets it back when it
// is full or flushed, and is asked for another at the next record: profilers rely on that
// (PyTorch's does not even flush while CUPTI has no buffer).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/client.hpp"
#include "cupti/spin_lock.hpp"
#include "cupti/walk.hpp"

namespace gpumemtrace::cupti {

struct ProgramBuffer {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
  std::size_t most_records = 0;  // 0: as many as fit
  std::size_t records = 0;

  [[nodiscard]] bool has_room(std::size_t more) const noexcept {
    return bytes != nullptr && more <= size - used && (most_records == 0 || records < most_records);
  }
};

// The buffer that the program gave and that has room. Any thread.
class OpenBuffer {
 public:
  // Takes the buffer, which no other thread has from then on; an empty one if there is none.
  ProgramBuffer take() noexcept {
    const SpinGuard guard(lock_);
    const ProgramBuffer taken = buffer_;
    buffer_ = {};
    return taken;
  }
  // False if another one was put there meanwhile.
  [[nodiscard]] bool put(const ProgramBuffer& buffer) noexcept {
    const SpinGuard guard(lock_);
    if (buffer_.bytes != nullptr) return false;
    buffer_ = buffer;
    return true;
  }
  [[nodiscard]] bool is_there() noexcept {
    const SpinGuard guard(lock_);
    return buffer_.bytes != nullptr;
  }
  void free_in_child() noexcept { lock_.free_in_child(); }

 private:
  SpinLock lock_;
  ProgramBuffer buffer_;
};

// The delivery of one completed buffer, on the thread on which CUPTI completes it. The program's
// callbacks are called with no lock held.
class Delivery {
 public:
  Delivery(const Callbacks& callbacks, OpenBuffer& open) noexcept
      : callbacks_(callbacks), open_(open), buffer_(open.take()) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // Asks for a buffer if there is none.
  void ask() noexcept;
  void add(const RawRecord& record) noexcept;
  // Leaves the buffer open for the next delivery.
  void leave_open() noexcept;
  // Returns the buffer to the program; an empty one only if `also_empty`, else it stays at hand.
  void give_back(bool also_empty) noexcept;
  // Records for which the program had no room.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  void complete() noexcept;

  Callbacks callbacks_;
  OpenBuffer& open_;
  ProgramBuffer buffer_;
  std::uint64_t dropped_ = 0;
};

}  // namespace gpumemtrace::cupti
