// SPDX-License-Identifier: Apache-2.0
// A hash of the content that a copy is about to send, so that an analysis can tell whether it was
// sent before. Off unless the user asks for it: it reads the program's buffers, on its thread.
#pragma once

#include <cstdint>

#include "preload/base/config.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Before the session's first record.
void set_content_hashing(const Config& config) noexcept;

[[nodiscard]] bool hashes_contents() noexcept;

// The hash of the source of a copy from host memory in one piece, before it runs; 0 if there is
// none: another kind of copy, or memory that cannot be read.
//
// - Read through the kernel, 16 KiB a system call: an address that the driver would refuse is
//   refused here, too. Any thread; keeps errno.
// - Only memory that the call itself names as host memory is read. Managed memory, which the call
//   may not distinguish from device memory, would be moved to the host by reading it.
std::uint64_t hash_of_source(const trace::Copy& copy) noexcept;

}  // namespace gpumemtrace::preload
