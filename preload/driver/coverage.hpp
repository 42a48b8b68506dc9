// SPDX-License-Identifier: Apache-2.0
// The calls that the wrappers may miss: functions of the driver that we do not wrap, and code that
// holds a CUDA runtime of its own. Each is kept once, also before a recording starts; the recording
// writes all that are kept.
#pragma once

#include <cstddef>

namespace gpumemtrace::preload::driver {

inline constexpr std::size_t kMaxUnwrappedName = 63;  // the rest is cut

// Any thread; no lock, no allocation.
void record_unwrapped(const char* name, const void* address) noexcept;
void record_runtime_caller(const void* caller) noexcept;

struct Unwrapped {
  char name[kMaxUnwrappedName + 1] = {};
  const void* address = nullptr;
};
// Complete entries so far; they do not change.
std::size_t unwrapped_count() noexcept;
const Unwrapped& unwrapped_at(std::size_t index) noexcept;
std::size_t runtime_caller_count() noexcept;
const void* runtime_caller_at(std::size_t index) noexcept;

}  // namespace gpumemtrace::preload::driver
