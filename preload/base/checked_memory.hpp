// SPDX-License-Identifier: Apache-2.0
// Reads memory of this process that may not be there, or may go away at any time.
#pragma once

#include <sys/uio.h>

#include <cstddef>

namespace gpumemtrace::preload {

// All functions: true if everything could be read. One system call; any thread, no lock. They keep
// errno.
[[nodiscard]] bool read_through_kernel(const void* address, void* out, std::size_t bytes) noexcept;

// Reads several ranges, one after the other, into `out`; at most 1024 (IOV_MAX). For ordinary
// memory only: memory that a driver fetches on access is fetched.
[[nodiscard]] bool read_through_kernel(const iovec* ranges, std::size_t count, void* out) noexcept;

template <class Value>
[[nodiscard]] bool read_through_kernel(const void* address, Value& out) noexcept {
  return read_through_kernel(address, &out, sizeof out);
}

// Reads a text of less than `capacity` bytes with the zero at its end; takes some system calls.
[[nodiscard]] bool read_text_through_kernel(const char* address, char* out,
                                            std::size_t capacity) noexcept;

}  // namespace gpumemtrace::preload
