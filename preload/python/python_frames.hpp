// SPDX-License-Identifier: Apache-2.0
// The calling thread's Python frames, read from the interpreter's memory: without the GIL, without
// calling anything that could run Python code, allocate or wait.
//
// Why that is safe: while a hook runs, its thread is inside a C call of Python. It executes no byte
// code, so nobody pushes, pops or frees its frames, whoever holds the GIL; each frame keeps its
// code object alive. What is read is bounded and checked, and the first walks of a process read
// through the kernel, so that wrong offsets cannot crash the program.
//
// CPython 3.9 to 3.14, release builds with a GIL. Elsewhere: off, with the reason in the trace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/key_table.hpp"
#include "preload/loader/loaded_module.hpp"

namespace gpumemtrace::preload {
class LoaderList;
}

namespace gpumemtrace::preload::python {

struct Walk;  // python_walk.hpp

inline constexpr std::size_t kMaxFrames = 200;  // what fits into one record

struct Frame {
  const void* code;
  std::uint32_t instruction;  // byte offset into the code
  std::uint32_t version;      // of the code object; tells apart objects that reuse an address
};

// What a frame says of itself, without a look at its code object.
struct RawFrame {
  const void* code;
  std::uint64_t instruction;  // a pointer into the code, or an index
};

// A code object's description, copied out of the interpreter. Texts point into the interpreter's
// memory and are valid during the hook.
struct Code {
  std::uint32_t first_line = 0;
  const void* qualified_name = nullptr;  // str objects
  const void* file = nullptr;
  const void* line_table = nullptr;  // bytes object
};

enum class State : std::uint8_t {
  kNotLooked,  // no interpreter was looked for yet
  kAbsent,     // this process has none (so far)
  kOff,        // there is one, but its frames are not read; see reason()
  kOn,
};

inline constinit std::atomic<State> current_state =
    State::kNotLooked;  // look() and turn_off() set it
// Acquire: pairs with look(): what it found is complete where this is kOn.
inline State state() noexcept { return current_state.load(std::memory_order_acquire); }
std::string_view reason() noexcept;

// Whether the interpreter's memory is still there: an embedded one can be unloaded after its end.
// While state() is kOn; any thread.
inline constinit std::atomic<std::uint32_t> seen_after_unloads = 0;
bool look_whether_loaded() noexcept;
inline bool is_loaded() noexcept {
  // Relaxed: a number, and a thread that sees an older one looks.
  return (!unload_is_running() &&
          seen_after_unloads.load(std::memory_order_relaxed) == unload_count()) ||
         look_whether_loaded();
}

// 0x030c04f0 for 3.12.4, as PY_VERSION_HEX; 0 = none.
std::uint32_t version_hex() noexcept;

// Looks for an interpreter among the loaded libraries; background thread, cheap once found.
void look(LoaderList& modules) noexcept;
void turn_off(std::string_view why) noexcept;

// Reads the calling thread's innermost `capacity` frames; while state() is kOn. `last` is this
// thread's own. Returns a hash of the frames; 0 on threads without Python frames.
std::uint64_t read_stack(std::size_t capacity, Walk& last) noexcept;
// The frames of a walk, innermost first; returns how many. `out` has room for kMaxFrames.
std::size_t copy_frames(const Walk& walk, Frame* out) noexcept;

// Step of the hash of a stack, outermost frame first.
std::uint64_t hash_with(std::uint64_t hash, const Frame& frame) noexcept;

// Tells code objects apart, also those that come to each other's place. Address and version are
// mixed one after the other: joined, they would be the same for pairs that differ alike.
inline std::uint64_t key_of_code(const Frame& frame) noexcept {
  return mix(mix(0, reinterpret_cast<std::uintptr_t>(frame.code)), frame.version);
}

// Makes every thread look at all code objects again; the background thread, every few
// milliseconds.
void next_round() noexcept;

// False where the object does not look like a code object.
bool read_code(const void* code, Code& out) noexcept;

// Copies the text of a str object as UTF-8, at most `capacity` bytes; returns how many.
std::size_t copy_text(const void* text, char* out, std::size_t capacity) noexcept;
// The content of a bytes object; empty where it does not look like one.
std::string_view bytes_of(const void* bytes) noexcept;

}  // namespace gpumemtrace::preload::python
