// SPDX-License-Identifier: Apache-2.0
// An image: records as they lie in memory once a piece of a trace is decoded.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/records.hpp"

namespace gpumemtrace::trace {

// A set of kinds of records; bit i stands for kind i.
using KindSet = std::bitset<256>;

// Records, one after the other, 8-byte aligned, in the layout of this version. For each record the
// image has its offset in bytes and its sort key (trace/order.hpp). A record's key is no smaller
// than that of the record before it, whatever the times in them say.
struct Image {
  std::vector<std::uint64_t> words;
  std::size_t bytes = 0;
  std::vector<std::uint32_t> offsets;
  std::vector<std::uint64_t> keys;

  const std::byte* data() const { return reinterpret_cast<const std::byte*>(words.data()); }
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
  [[nodiscard]] RecordHeader* record(std::size_t index) {
    return reinterpret_cast<RecordHeader*>(data() + offsets[index]);
  }
  void clear() {
    bytes = 0;
    offsets.clear();
    keys.clear();
  }
  // The content of the image is unspecified after this.
  void resize(std::size_t new_bytes) {
    make_room(words, (new_bytes + kWordBytes - 1) / kWordBytes);
    bytes = new_bytes;
  }
  void resize_records(std::size_t count) {
    make_room(offsets, count);
    make_room(keys, count);
    offsets.resize(count);
    keys.resize(count);
  }

 private:
  // Reserves an eighth more than asked for: the images of a trace are of nearly equal size, and
  // repeated small growth of memory leaves holes in the heap.
  template <class Value>
  static void make_room(std::vector<Value>& values, std::size_t count) {
    if (values.capacity() < count) {
      values = {};
      values.reserve(count + count / 8);
    }
    if (values.size() < count) values.resize(count);
  }
};

}  // namespace gpumemtrace::trace
