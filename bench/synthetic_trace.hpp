// SPDX-License-Identifier: Apache-2.0
// Traces of any length that look to packer, reader and analyzer like those of real jobs: repeating
// steps, addresses of a caching allocator, times that jitter. The same arguments give the same
// file.
#pragma once

#include <cstdint>
#include <filesystem>

namespace gpumemtrace::bench {

enum class Pattern {
  kTraining,       // PyTorch's own allocator: 1250 block events a step inside a few segments
  kVaryingShapes,  // the same, batches of varying length, placed by PyTorch's rules
  kAsyncBackend,   // backend:cudaMallocAsync: 1248 stream-ordered calls a step
  kManyThreads,    // 64 threads, each with device memory of its own
  kCopies,         // one thread that copies, with two records of CUPTI for each of its calls
};

struct SyntheticTrace {
  std::filesystem::path path;
  std::uint64_t events = 0;
  std::uint64_t file_bytes = 0;
};

// Writes about `events` events (whole steps). Throws std::runtime_error if it cannot.
[[nodiscard]] SyntheticTrace write_synthetic_trace(const std::filesystem::path& path,
                                                   Pattern pattern, std::uint64_t events);

}  // namespace gpumemtrace::bench
