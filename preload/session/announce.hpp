// SPDX-License-Identifier: Apache-2.0
// Dictionary entries that become known while the process runs: contexts, functions that we do not
// wrap, code that holds a CUDA runtime. Each is noted once, from any thread, without allocation,
// also before a recording starts; the recording writes what is noted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

inline constexpr std::size_t kMaxNoted = 128;
inline constexpr std::size_t kMaxNotedName = 63;

// Writes the context's record at once where the calling thread records; else the recording does so
// when it starts or goes on.
void announce_context(std::uint32_t context_id) noexcept;

void announce_unwrapped(const char* name, const void* address) noexcept;
void announce_requester(const void* caller) noexcept;

struct NotedName {
  char name[kMaxNotedName + 1] = {};
  const void* address = nullptr;
};
// Complete entries so far; they stay as they are.
std::size_t noted_unwrapped_count() noexcept;
const NotedName& noted_unwrapped(std::size_t index) noexcept;
std::size_t noted_requester_count() noexcept;
const void* noted_requester(std::size_t index) noexcept;

}  // namespace gpumemtrace::preload
