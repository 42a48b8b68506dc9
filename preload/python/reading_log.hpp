// SPDX-License-Identifier: Apache-2.0
// Keeps the bytes that were read of other threads' memory, so that all of them can be compared in
// one system call.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::python {

// - A result that depends on the noted bytes, and on nothing else that changes, holds as long as
//   is_unchanged().
// - For one thread.
class ReadingLog {
 public:
  // Forgets all notes: is_unchanged() is false until there are new ones.
  void clear() noexcept;
  // Notes bytes that were read at `address`. If the log has no room for them, is_unchanged() is
  // false until clear().
  void note(const void* address, const void* content, std::size_t bytes) noexcept;
  // Called when memory could not be read: is_unchanged() is false until clear().
  void spoil() noexcept { is_spoiled_ = true; }

  // True if all noted bytes read the same now.
  [[nodiscard]] bool is_unchanged() noexcept;

 private:
  static constexpr std::size_t kMaxNotes = 2048;
  static constexpr std::size_t kMaxRanges = 1024;  // the kernel's limit for one system call
  static constexpr std::size_t kMaxBytes = 32 << 10;
  static constexpr std::size_t kMaxReadBytes = 128 << 10;  // noted bytes and those between them

  struct Note {
    const char* address;
    std::uint32_t bytes;
    std::uint32_t content;  // index of the noted bytes in `content_`
    std::uint32_t place;    // index of the noted bytes in is_unchanged()'s buffer
  };

  void plan_reading() noexcept;

  Note notes_[kMaxNotes] = {};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;  // used bytes of `content_`
  bool is_spoiled_ = false;
  iovec ranges_[kMaxRanges] = {};  // ranges that cover all notes
  std::size_t range_count_ = 0;    // 0 until plan_reading() has run
  char content_[kMaxBytes] = {};
};

// Reads through the kernel, and notes the bytes if there is a log.
[[nodiscard]] bool read_noted(ReadingLog* log, const void* address, void* out,
                              std::size_t bytes) noexcept;
template <class Value>
[[nodiscard]] bool read_noted(ReadingLog* log, const void* address, Value& out) noexcept {
  return read_noted(log, address, &out, sizeof out);
}

}  // namespace gpumemtrace::preload::python
