// SPDX-License-Identifier: Apache-2.0
// How much the tensor function that PyTorch is in on this thread asks its allocator for: the size
// that the allocator then rounds, and tells of the rounded one alone.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

// 0: no such function is under way, or its size is not known, or a block has taken it.
extern constinit thread_local std::uint64_t requested_bytes [[gnu::tls_model("initial-exec")]];

// For the block that the allocator hands out now; 0 if nobody said.
[[gnu::always_inline]] inline std::uint64_t take_requested_bytes(
    std::uint64_t block_bytes) noexcept {
  const std::uint64_t requested = requested_bytes;
  requested_bytes = 0;
  return requested <= block_bytes ? requested : 0;
}

}  // namespace gpumemtrace::preload
