// SPDX-License-Identifier: Apache-2.0
// Python threads that wait for PyTorch's autograd engine. The engine's own threads have no Python
// frames, and the thread that called backward() waits for them without the GIL, in native code.
//
// Background thread only. The other threads run on meanwhile, so everything is read through the
// kernel, whole structures at once, and counts only where a second reading gives the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/python/python_types.hpp"

namespace gpumemtrace::preload::python {

struct WaitingThread {
  std::uint64_t thread_id;  // the kernel's; 0 = not known
  std::size_t count;
  Frame frames[kMaxFrames];  // innermost first
};

// Fills in up to `capacity` threads of the main interpreter whose innermost Python frame waits for
// the engine, with at most `depth` frames each; returns how many. 0 where there is no interpreter.
std::size_t find_waiting(WaitingThread* out, std::size_t capacity, std::size_t depth) noexcept;

// The texts of a code object that another thread may free. Each is cut at its room.
struct CodeCopy {
  std::uint32_t first_line = 0;
  std::size_t name_bytes = 0;
  std::size_t file_bytes = 0;
  std::size_t line_table_bytes = 0;
  char name[1024];
  char file[1024];
  char line_table[65536];
};
[[nodiscard]] bool copy_code(const void* code, CodeCopy& out) noexcept;

}  // namespace gpumemtrace::preload::python
