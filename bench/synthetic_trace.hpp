// SPDX-License-Identifier: Apache-2.0
// Writes traces of any length that resemble real jobs for packer, reader and analyzer: repeating
// steps, addresses of a caching allocator, jittering times. The same arguments give the same file.
#pragma once

#include <cstdint>
#include <filesystem>

namespace gpumemtrace::bench {

enum class Pattern {
  kTraining,       // PyTorch's own allocator: 1250 block events a step inside a few segments
  kVaryingShapes,  // block events of batches of varying length, placed by PyTorch's rules
  kAsyncBackend,   // backend:cudaMallocAsync: 1248 stream-ordered calls a step
  kManyThreads,    // 64 threads, each with its own device memory
  kCopies,         // one thread that copies, with two CUPTI records for each call
};

struct SyntheticTrace {
  std::filesystem::path path;
  std::uint64_t events = 0;
  std::uint64_t file_bytes = 0;
};

// Writes about `events` events (whole steps). Throws std::runtime_error if writing fails.
[[nodiscard]] SyntheticTrace write_synthetic_trace(const std::filesystem::path& path,
                                                   Pattern pattern, std::uint64_t events);

}  // namespace gpumemtrace::bench
