// SPDX-License-Identifier: Apache-2.0
// Rounds a request for linear memory or an array up to the bytes that the driver takes of a device.
#pragma once

#include <cstdint>

#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/mapped_array.hpp"

namespace gpumemtrace::ledger {

// Measured on an H100 with driver 580.159.04 (CUDA 13.0): a request of more than 1 MiB takes whole
// chunks of 2 MiB. Smaller ones are cut out of such chunks, and a chunk is taken as long as
// something in it is live.
// - The address shows which chunk that is. Arrays have none (0): they are taken to lie close
//   together.
// - failed() if the system had no memory; the numbers are worthless then.
class DriverRounding {
 public:
  void add(std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t number = address / kChunkBytes;
    if (bytes > kLargestSmall) {
      added_bytes_ += missing(bytes);
    } else if (number == 0) {
      array_bytes_ += bytes;
    } else {
      small_bytes_ += bytes;
      Chunk* chunk = chunks_.find(number);
      if (chunk == nullptr) chunk = chunks_.insert({number, 0});
      if (chunk == nullptr) {
        failed_ = true;
      } else {
        ++chunk->live;
      }
    }
  }
  void remove(std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t number = address / kChunkBytes;
    if (bytes > kLargestSmall) {
      added_bytes_ -= missing(bytes);
    } else if (number == 0) {
      array_bytes_ -= bytes;
    } else {
      small_bytes_ -= bytes;
      Chunk* const chunk = chunks_.find(number);
      if (chunk != nullptr && --chunk->live == 0) chunks_.erase(chunk);
    }
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return added_bytes_ + missing(array_bytes_) + chunks_.size() * kChunkBytes - small_bytes_;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct Chunk {
    std::uint64_t number = 0;
    std::uint64_t live = 0;
  };
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kLargestSmall = std::uint64_t{1} << 20;

  [[nodiscard]] static constexpr std::uint64_t missing(std::uint64_t bytes) {
    return (0 - bytes) % kChunkBytes;
  }

  FlatMap<Chunk, &Chunk::number, MappedArray> chunks_;
  std::uint64_t small_bytes_ = 0;  // asked for in the chunks
  std::uint64_t array_bytes_ = 0;  // asked for by small arrays
  std::uint64_t added_bytes_ = 0;  // to what is larger
  bool failed_ = false;
};

}  // namespace gpumemtrace::ledger
