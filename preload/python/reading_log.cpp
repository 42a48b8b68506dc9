// SPDX-License-Identifier: Apache-2.0
#include "preload/python/reading_log.hpp"

#include <string.h>

#include <algorithm>

#include "preload/base/checked_memory.hpp"

namespace gpumemtrace::preload::python {
namespace {

// Notes that are at most this many bytes apart share a range: one more range costs the kernel as
// much as reading some cache lines in vain.
constexpr std::ptrdiff_t kMostBetween = 128;

}  // namespace

void ReadingLog::clear() noexcept {
  count_ = bytes_ = range_count_ = 0;
  is_spoiled_ = false;
}

void ReadingLog::note(const void* address, const void* content, std::size_t bytes) noexcept {
  is_spoiled_ = is_spoiled_ || count_ == kMaxNotes || bytes > sizeof content_ - bytes_;
  if (is_spoiled_) return;
  notes_[count_++] = {static_cast<const char*>(address), static_cast<std::uint32_t>(bytes),
                      static_cast<std::uint32_t>(bytes_), 0};
  memcpy(content_ + bytes_, content, bytes);
  bytes_ += bytes;
}

// Chooses the ranges that one system call reads to compare all notes. Merges equal notes, because
// frames are read twice. Notes that stand close together share one range; the bytes between them
// are read and not compared.
void ReadingLog::plan_reading() noexcept {
  std::sort(notes_, notes_ + count_,
            [](const Note& left, const Note& right) { return left.address < right.address; });
  const auto says_the_same = [this](const Note& left, const Note& right) {
    return left.address == right.address && left.bytes == right.bytes &&
           memcmp(content_ + left.content, content_ + right.content, left.bytes) == 0;
  };
  count_ = static_cast<std::size_t>(std::unique(notes_, notes_ + count_, says_the_same) - notes_);
  std::size_t place = 0;  // begin of the last range in is_unchanged()'s buffer
  std::size_t size = 0;   // bytes of the last range
  for (std::size_t i = 0; i < count_; ++i) {
    Note& note = notes_[i];
    const char* begin = nullptr;
    if (range_count_ > 0) begin = static_cast<const char*>(ranges_[range_count_ - 1].iov_base);
    if (begin == nullptr || note.address - (begin + size) > kMostBetween) {
      place += size;
      size = 0;
      is_spoiled_ = is_spoiled_ || range_count_ == kMaxRanges;
      if (is_spoiled_) return;
      begin = note.address;
      ranges_[range_count_++] = {const_cast<char*>(begin), 0};
    }
    size = std::max(size, static_cast<std::size_t>(note.address + note.bytes - begin));
    is_spoiled_ = is_spoiled_ || place + size > kMaxReadBytes;
    if (is_spoiled_) return;
    ranges_[range_count_ - 1].iov_len = size;
    note.place = static_cast<std::uint32_t>(place + static_cast<std::size_t>(note.address - begin));
  }
}

bool ReadingLog::is_unchanged() noexcept {
  static constinit char now[kMaxReadBytes] = {};  // static, because large; one thread uses it
  if (is_spoiled_ || count_ == 0) return false;
  if (range_count_ == 0) plan_reading();
  if (is_spoiled_ || !read_through_kernel(ranges_, range_count_, now)) return false;
  return std::all_of(notes_, notes_ + count_, [this](const Note& note) {
    return memcmp(now + note.place, content_ + note.content, note.bytes) == 0;
  });
}

bool read_noted(ReadingLog* log, const void* address, void* out, std::size_t bytes) noexcept {
  const bool is_read = read_through_kernel(address, out, bytes);
  if (log != nullptr) is_read ? log->note(address, out, bytes) : log->spoil();
  return is_read;
}

}  // namespace gpumemtrace::preload::python
