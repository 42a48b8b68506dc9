// SPDX-License-Identifier: Apache-2.0
#include "preload/session/content_hash.hpp"

#include <string.h>

#include <bit>
#include <cstddef>

#include "preload/base/checked_memory.hpp"
#include "preload/base/key_table.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kPieceBytes = 16 * 1024;

constinit bool enabled = false;

// Hashes 32 bytes a round into four sums that do not depend on each other, so that the processor
// computes them at the same time.
class ContentHash {
 public:
  void add(const char* piece, std::size_t bytes) noexcept {
    std::size_t at = 0;
    for (; at + sizeof lanes_ <= bytes; at += sizeof lanes_) add_stripe(piece + at);
    if (at == bytes) return;
    char last[sizeof lanes_] = {};
    memcpy(last, piece + at, bytes - at);
    add_stripe(last);
  }

  std::uint64_t finish(std::uint64_t bytes) const noexcept {
    std::uint64_t hash = bytes;
    for (const std::uint64_t lane : lanes_) hash = mix(hash, lane);
    return hash == 0 ? 1 : hash;  // 0 means that there is no hash
  }

 private:
  static constexpr std::uint64_t kSpread = 0x9E37'79B9'7F4A'7C15u;  // 2^64 / golden ratio
  static constexpr std::uint64_t kScatter = 0xD6E8'FEB8'6659'FD93u;

  void add_stripe(const char* stripe) noexcept {
    std::uint64_t words[4];
    memcpy(words, stripe, sizeof words);
    for (std::size_t i = 0; i < 4; ++i) {
      lanes_[i] = std::rotl(lanes_[i] + words[i] * kSpread, 31) * kScatter;
    }
  }

  std::uint64_t lanes_[4] = {1, 2, 3, 4};
};

bool comes_from_the_host(const trace::Copy& copy) noexcept {
  return copy.source_type == trace::EndType::kHost &&
         copy.destination_type != trace::EndType::kHost && copy.dimensions == 1 &&
         (copy.call.record.flags & trace::kFlagCaptured) == 0;
}

}  // namespace

void set_content_hashing(const Config& config) noexcept { enabled = config.hash_copies; }

bool hashes_contents() noexcept { return enabled; }

std::uint64_t hash_of_source(const trace::Copy& copy) noexcept {
  if (!comes_from_the_host(copy) || copy.bytes == 0) return 0;
  const auto* const source = reinterpret_cast<const char*>(copy.source);
  char piece[kPieceBytes];
  ContentHash hash;
  for (std::uint64_t at = 0; at < copy.bytes; at += sizeof piece) {
    const std::uint64_t left = copy.bytes - at;
    const auto bytes = static_cast<std::size_t>(left < sizeof piece ? left : sizeof piece);
    if (!read_through_kernel(source + at, piece, bytes)) return 0;
    hash.add(piece, bytes);
  }
  return hash.finish(copy.bytes);
}

}  // namespace gpumemtrace::preload
