// SPDX-License-Identifier: Apache-2.0
// The calling thread's Python frames, read from the interpreter's memory: without the GIL, without
// calling anything that could run Python code, allocate or wait.
//
// Reading is safe because a hook's thread is inside a C call of Python. It executes no byte code,
// so no thread pushes, pops or frees its frames, whichever holds the GIL; each frame keeps its code
// object alive. All reads are bounded and checked, and the first walks of a process read through
// the kernel, so that wrong offsets cannot crash the program.
//
// Supports CPython 3.9 to 3.14, release builds with a GIL. Other interpreters' frames are not read,
// and the trace has the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/python/python_layout.hpp"

namespace gpumemtrace::preload::python {

struct Walk;  // python_walk.hpp

// A code object's description, copied out of the interpreter. Texts point into the interpreter's
// memory and are valid during the hook.
struct Code {
  std::uint32_t first_line = 0;
  const void* qualified_name = nullptr;  // str objects
  const void* file = nullptr;
  const void* line_table = nullptr;  // bytes object
};

// Reads the calling thread's innermost `capacity` frames; callable while state() is kOn. `now` is
// the time in ticks(); `last` holds the thread's previous walk and gets this one. Returns a hash of
// the frames; 0 on threads without Python frames.
std::uint64_t read_stack(std::size_t capacity, std::uint64_t now, Walk& last) noexcept;
// Copies the frames of a walk, innermost first, to `out`, which has room for kMaxFrames. Returns
// how many.
std::size_t copy_frames(const Walk& walk, Frame* out) noexcept;

// False if the object does not look like a code object.
[[nodiscard]] bool read_code(const void* code, Code& out) noexcept;

// Copies the text of a str object as UTF-8, at most `capacity` bytes; returns how many.
std::size_t copy_text(const void* text, char* out, std::size_t capacity) noexcept;
// The content of a bytes object; empty if it does not look like one.
std::string_view bytes_of(const void* bytes) noexcept;

}  // namespace gpumemtrace::preload::python
