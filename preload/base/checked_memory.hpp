// SPDX-License-Identifier: Apache-2.0
// Reads memory of this process that may not be there, or may go away at any time.
#pragma once

#include <sys/uio.h>

#include <cstddef>

namespace gpumemtrace::preload {

// All functions of this file return true if everything could be read. They usually make one system
// call, take no lock and keep errno. Any thread.
[[nodiscard]] bool read_through_kernel(const void* address, void* out, std::size_t bytes) noexcept;

// Reads several ranges, one after the other, into `out`; at most 1024 ranges (IOV_MAX). For
// ordinary memory only: a read of managed memory would make the driver move it to the host.
[[nodiscard]] bool read_through_kernel(const iovec* ranges, std::size_t count, void* out) noexcept;

template <class Value>
[[nodiscard]] bool read_through_kernel(const void* address, Value& out) noexcept {
  return read_through_kernel(address, &out, sizeof out);
}

// Reads a text of less than `capacity` bytes and the zero at its end; makes some system calls.
[[nodiscard]] bool read_text_through_kernel(const char* address, char* out,
                                            std::size_t capacity) noexcept;

}  // namespace gpumemtrace::preload
