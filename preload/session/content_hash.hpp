// SPDX-License-Identifier: Apache-2.0
// A hash of the content that a copy is about to send, so that an analysis can tell whether the same
// content was sent before. Off unless the user asks for it, because hashing reads the program's
// buffers on the program's thread.
#pragma once

#include <cstdint>

#include "preload/base/config.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Switches hashing on or off as the user wants. Called before the session's first record.
void set_content_hashing(const Config& config) noexcept;

[[nodiscard]] bool hashes_contents() noexcept;

// The hash of the source of a copy from host memory in one piece, computed before the copy runs; 0
// if there is no hash: another kind of copy, or memory that cannot be read.
//
// - The source is read through the kernel, 16 KiB a system call: an address that the driver would
//   refuse is refused here, too. Any thread; keeps errno.
// - Only memory that the call itself names as host memory is read. Managed memory, which the call
//   may not distinguish from device memory, would be moved to the host by reading it.
std::uint64_t hash_of_source(const trace::Copy& copy) noexcept;

}  // namespace gpumemtrace::preload
