// SPDX-License-Identifier: Apache-2.0
// A thread that ends returns its writer.
#pragma once

namespace gpumemtrace::preload {

// Once in a process, before threads attach.
[[nodiscard]] bool make_thread_end_key() noexcept;

// The calling thread has a writer, and gives it back at its end. Not for the background thread, nor
// in signal handlers: libc may allocate memory for it.
void return_writer_at_end() noexcept;

}  // namespace gpumemtrace::preload
