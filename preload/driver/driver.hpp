// SPDX-License-Identifier: Apache-2.0
// The real CUDA driver behind the wrappers: its functions, and the few questions that the recorder
// asks it. Nothing here loads a driver: if the program has loaded none, there is none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/driver/apis.hpp"

namespace gpumemtrace::preload::driver {

// The way by which the caller reached our wrapper.
enum class Entry {
  kExported,  // the caller was linked against libcuda.so.1 and reached our symbol
  kPointer,   // the caller got a pointer from dlsym or cuGetProcAddress
};

// The function that a wrapper calls: for kExported the next definition of the symbol in the process
// (another preloaded library may stand before the driver), for kPointer the one that dlsym finds in
// the driver. nullptr if no driver is loaded or it lacks the function. Any thread; the first call
// resolves.
void* real(ApiId api, Entry entry) noexcept;

// The real cuGetProcAddress (version 1 or 2).
void* real_get_proc_address(int version, Entry entry) noexcept;

// For a process without a driver: another library's definition of a function whose symbol we
// export. A library that stands in for CUDA in tests has one, and the caller would have reached
// that library without us. nullptr if there is no definition, and for Entry::kPointer. Looks the
// definition up each time. Any thread.
void* stand_in(const ApiInfo& api, Entry entry) noexcept;

// The wrapper for `address`, or `address` itself if we wrap no such function. `name` (may be
// nullptr) is the name that the program asked for, for the coverage report.
void* wrap(void* address, const char* name) noexcept;

// A function of the driver that is not wrapped, by its exported name; nullptr if the driver lacks
// the function. Looks it up each time.
void* query(const char* name) noexcept;

[[nodiscard]] bool is_loaded() noexcept;

// --- Questions to the driver. Each returns 0, -1 or false if the driver cannot answer.

std::uint64_t current_context() noexcept;
std::uint64_t context_of_stream(std::uint64_t stream) noexcept;
[[nodiscard]] int device_of_context(std::uint64_t handle) noexcept;  // -1 = unknown
[[nodiscard]] bool primary_context_is_active(int device) noexcept;
[[nodiscard]] bool stream_is_capturing(std::uint64_t stream, bool per_thread_default) noexcept;
std::uint64_t mapped_bytes(std::uint64_t address) noexcept;

// Sources of calls that the wrappers may miss: driver functions that we do not wrap, and code that
// holds a CUDA runtime of its own. Each source is kept once, also before a recording starts; the
// recording writes them all.

inline constexpr std::size_t kMaxUnwrappedName = 63;  // the rest of a longer name is cut

// Any thread; no lock, no allocation.
void record_unwrapped(const char* name, const void* address) noexcept;
void record_runtime_caller(const void* caller) noexcept;

struct Unwrapped {
  char name[kMaxUnwrappedName + 1] = {};
  const void* address = nullptr;
};
// The number of unwrapped functions and of runtime callers recorded so far, and the entry at an
// index; an entry does not change.
std::size_t unwrapped_count() noexcept;
const Unwrapped& unwrapped_at(std::size_t index) noexcept;
std::size_t runtime_caller_count() noexcept;
const void* runtime_caller_at(std::size_t index) noexcept;

}  // namespace gpumemtrace::preload::driver
