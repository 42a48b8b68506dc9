// SPDX-License-Identifier: Apache-2.0
// CUPTI's records on their way into the program's buffers: records that may or may not be the
// program's are held until that is known.
#pragma once

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/client.hpp"
#include "cupti/functions.hpp"
#include "cupti/spin_lock.hpp"

namespace gpumemtrace::cupti {

// Records that may or may not be the program's: they ran near the time at which the program
// switched their kind, and the call that asked for them has not been seen.
//
// - Any thread. review() lets one thread in at a time and calls out with no lock held.
class HeldRecords {
 public:
  // Called by one thread, before all other functions; false if there is no memory.
  [[nodiscard]] bool reserve() noexcept {
    if (areas_[0].bytes != nullptr) return true;
    void* memory = mmap(nullptr, 2 * kAreaBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    areas_[0].bytes = static_cast<std::uint8_t*>(memory);
    areas_[1].bytes = areas_[0].bytes + kAreaBytes;
    return true;
  }

  // Called when a flush begins. Rounds are the times between the beginnings of flushes: returns the
  // number of the round that ends now; all records held so far belong to it or to earlier rounds.
  std::uint64_t end_round() noexcept { return round_.fetch_add(1); }

  // Returns false if there is no room.
  [[nodiscard]] bool hold(const RawRecord& record) noexcept { return hold(record, round_.load()); }

  // A number below that of every round, for a record that cannot be held further.
  static constexpr std::uint64_t kEndedRound = 0;

  // Passes each held record and its round to `decide`, which returns whether to hold it further. If
  // there is no room to hold it further, passes it again, as a record of kEndedRound. If another
  // thread is reviewing, waits for that thread if `wait` is true, else does nothing.
  template <class Decide>
  void review(bool wait, Decide&& decide) noexcept {
    // Acquire and release: the area under review passes from one reviewer to the next.
    while (reviewing_.exchange(true, std::memory_order_acquire)) {
      if (!wait) return;
      sched_yield();
    }
    const Area under_review = take_filled();
    for (std::size_t at = 0; at < under_review.used;) {
      Header header;
      memcpy(&header, under_review.bytes + at, sizeof header);
      const RawRecord record = {under_review.bytes + at + sizeof header, header.size};
      // hold() fails if other threads have filled the other area during the review.
      if (decide(record, header.round) && !hold(record, header.round)) {
        static_cast<void>(decide(record, kEndedRound));
      }
      at += sizeof header + (header.size + 7) / 8 * 8;
    }
    reviewing_.store(false, std::memory_order_release);
  }

  [[nodiscard]] bool holds_any() noexcept {
    const SpinGuard guard(lock_);
    return areas_[filling_].used != 0;
  }

  void forget() noexcept {
    const SpinGuard guard(lock_);
    areas_[filling_].used = 0;
  }
  void free_in_child() noexcept {
    lock_.free_in_child();
    reviewing_.store(false);
  }

 private:
  struct Header {
    std::uint64_t size = 0;
    std::uint64_t round = 0;
  };

  [[nodiscard]] bool hold(const RawRecord& record, std::uint64_t round) noexcept {
    const SpinGuard guard(lock_);
    Area& area = areas_[filling_];
    const std::size_t padded = (record.size + 7) / 8 * 8;
    if (area.bytes == nullptr || area.used + sizeof(Header) + padded > kAreaBytes) return false;
    const Header header = {record.size, round};
    memcpy(area.bytes + area.used, &header, sizeof header);
    memcpy(area.bytes + area.used + sizeof header, record.bytes, record.size);
    area.used += sizeof header + padded;
    return true;
  }

  static constexpr std::size_t kAreaBytes = std::size_t{4} << 20;
  struct Area {
    std::uint8_t* bytes = nullptr;
    std::size_t used = 0;
  };

  // Takes the records held so far; from now on the other area is filled.
  Area take_filled() noexcept {
    const SpinGuard guard(lock_);
    const Area filled = areas_[filling_];
    filling_ = 1 - filling_;
    areas_[filling_].used = 0;
    return filled;
  }

  SpinLock lock_;
  std::atomic<bool> reviewing_ = false;
  std::atomic<std::uint64_t> round_ = 1;
  Area areas_[2];
  std::size_t filling_ = 0;
};

// A buffer of the program, into which the program's records are copied.
//
// As with CUPTI alone, a program that collects gives CUPTI a buffer early on, gets the buffer back
// when that is full or flushed, and is asked for another buffer at the next record: profilers rely
// on that (PyTorch's does not even flush while CUPTI has no buffer).
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

// The buffer that the program gave and that still has room. For any thread.
class OpenBuffer {
 public:
  // Takes the buffer, which no other thread has from then on; `bytes` is nullptr if there is none.
  ProgramBuffer take() noexcept {
    const SpinGuard guard(lock_);
    const ProgramBuffer taken = buffer_;
    buffer_ = {};
    return taken;
  }
  // Puts the buffer back; false if another buffer was put here meanwhile.
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

  // Asks the program for a buffer if there is none.
  void ask() noexcept;
  void add(const RawRecord& record) noexcept;
  // Leaves the buffer open for the next delivery.
  void leave_open() noexcept;
  // Returns the buffer to the program; an empty buffer only if `also_empty`, else it is kept.
  void give_back(bool also_empty) noexcept;
  // Records for which the program had no room.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  void return_to_program() noexcept;

  Callbacks callbacks_;
  OpenBuffer& open_;
  ProgramBuffer buffer_;
  std::uint64_t dropped_ = 0;
};

}  // namespace gpumemtrace::cupti
