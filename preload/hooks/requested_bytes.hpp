// SPDX-License-Identifier: Apache-2.0
// The size that the present PyTorch tensor function on this thread asks its allocator for. The
// allocator rounds it and reports the rounded size alone.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

// 0: no such function is running, its size is not known, or a block has taken it.
extern constinit thread_local std::uint64_t requested_bytes [[gnu::tls_model("initial-exec")]];

// Takes the size for the block that the allocator hands out now; 0 if there is none.
[[gnu::always_inline]] inline std::uint64_t take_requested_bytes(
    std::uint64_t block_bytes) noexcept {
  const std::uint64_t requested = requested_bytes;
  requested_bytes = 0;
  return requested <= block_bytes ? requested : 0;
}

}  // namespace gpumemtrace::preload
