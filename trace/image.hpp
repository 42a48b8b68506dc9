// Records as they lie in memory once a piece of a trace is decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/records.hpp"

namespace gpumemtrace::trace {

// One record after the other, 8-byte aligned, in this version's layout; and for each of them where
// it begins, in bytes, and its place in the order (trace/order.hpp). A record's key is no smaller
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
  // What is in it afterwards is not said.
  void resize(std::size_t new_bytes) {
    const std::size_t needed = (new_bytes + kWordBytes - 1) / kWordBytes;
    if (words.size() < needed) {
      words.clear();
      words.resize(needed);
    }
    bytes = new_bytes;
  }
};

}  // namespace gpumemtrace::trace
