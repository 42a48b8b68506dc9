// SPDX-License-Identifier: Apache-2.0
// Rounds requests for linear memory and arrays up to the bytes that the driver takes from the
// device for them.
#pragma once

#include <cstdint>

#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/mapped_array.hpp"

namespace gpumemtrace::ledger {

// Measured on an H100 with driver 580.159.04 (CUDA 13.0): a request of more than 1 MiB takes whole
// chunks of 2 MiB. Smaller ones are cut out of such chunks, and a chunk is taken as long as
// something in it is live.
// - Memory of other kinds consists of whole chunks already, and is ignored here.
// - The address shows in which chunk a small request lies. Arrays have handles instead of
//   addresses: they are assumed to lie close together.
// - failed() if the system had no memory; the numbers are worthless then.
class DriverRounding {
 public:
  void add(std::int32_t device, Kind kind, std::uint64_t address, std::uint64_t bytes) {
    if (!is_rounded(kind)) return;
    Sums& sums = sums_of(device);
    if (bytes > kLargestSmall) {
      sums.added_bytes += missing(bytes);
    } else if (kind == Kind::kArray) {
      sums.array_bytes += bytes;
    } else {
      sums.small_bytes += bytes;
      Chunk* chunk = chunks_.find(key_of(device, address));
      if (chunk == nullptr) {
        chunk = chunks_.insert({key_of(device, address), 0});
        ++sums.chunks;
      }
      if (chunk == nullptr) {
        failed_ = true;
      } else {
        ++chunk->live;
      }
    }
  }
  void remove(std::int32_t device, Kind kind, std::uint64_t address, std::uint64_t bytes) {
    if (!is_rounded(kind)) return;
    Sums& sums = sums_of(device);
    if (bytes > kLargestSmall) {
      sums.added_bytes -= missing(bytes);
    } else if (kind == Kind::kArray) {
      sums.array_bytes -= bytes;
    } else {
      sums.small_bytes -= bytes;
      Chunk* const chunk = chunks_.find(key_of(device, address));
      if (chunk == nullptr || --chunk->live != 0) return;
      chunks_.erase(chunk);
      --sums.chunks;
    }
  }
  [[nodiscard]] std::uint64_t bytes(std::int32_t device) const {
    for (const Sums& sums : devices_) {
      if (sums.device != device) continue;
      return sums.added_bytes + missing(sums.array_bytes) + sums.chunks * kChunkBytes -
             sums.small_bytes;
    }
    return 0;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct Chunk {
    std::uint64_t key = 0;
    std::uint64_t live = 0;
  };
  struct Sums {
    std::int32_t device = kUnknownDevice;
    std::uint64_t chunks = 0;
    std::uint64_t small_bytes = 0;  // requested bytes in the chunks
    std::uint64_t array_bytes = 0;  // requested bytes of small arrays
    std::uint64_t added_bytes = 0;  // bytes by which larger requests were rounded up
  };
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kLargestSmall = std::uint64_t{1} << 20;

  [[nodiscard]] static constexpr bool is_rounded(Kind kind) {
    return kind == Kind::kDevice || kind == Kind::kPitched || kind == Kind::kArray;
  }
  [[nodiscard]] static constexpr std::uint64_t missing(std::uint64_t bytes) {
    return (0 - bytes) % kChunkBytes;
  }
  // The key of a chunk: its number in the low bits and the device in the bits above, which no
  // address reaches; never 0.
  [[nodiscard]] static constexpr std::uint64_t key_of(std::int32_t device, std::uint64_t address) {
    return address / kChunkBytes ^
           (std::uint64_t{static_cast<std::uint32_t>(device - kUnknownDevice + 1)} << 44);
  }
  // The sums of a device. There are few devices, so they are searched one by one.
  [[nodiscard]] Sums& sums_of(std::int32_t device) {
    for (Sums& sums : devices_) {
      if (sums.device == device) return sums;
    }
    if (devices_.push({.device = device})) return devices_.back();
    failed_ = true;
    return nowhere_;
  }

  FlatMap<Chunk, &Chunk::key, MappedArray> chunks_;
  MappedArray<Sums> devices_;
  Sums nowhere_;  // stands in for a device's sums if there is no memory for them
  bool failed_ = false;
};

}  // namespace gpumemtrace::ledger
