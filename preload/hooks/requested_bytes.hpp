// SPDX-License-Identifier: Apache-2.0
// The size that the PyTorch tensor function that runs on this thread asks PyTorch's allocator for.
// The allocator rounds the size up and reports the rounded size alone.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

// In bytes. 0: no PyTorch tensor function is running, its size is not known, or a block has taken
// the size.
extern constinit thread_local std::uint64_t requested_bytes [[gnu::tls_model("initial-exec")]];

// Takes the requested size for the block that PyTorch's allocator hands out now; 0 if there is
// none, or it is larger than the block.
[[gnu::always_inline]] inline std::uint64_t take_requested_bytes(
    std::uint64_t block_bytes) noexcept {
  const std::uint64_t requested = requested_bytes;
  requested_bytes = 0;
  return requested <= block_bytes ? requested : 0;
}

}  // namespace gpumemtrace::preload
