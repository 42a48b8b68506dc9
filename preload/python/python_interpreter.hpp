// SPDX-License-Identifier: Apache-2.0
// The Python interpreter of this process: whether there is one, its version, the addresses to read,
// and its cycle collector.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/loader/loaded_module.hpp"
#include "preload/python/python_layout.hpp"

namespace gpumemtrace::preload {

class LoaderList;
}  // namespace gpumemtrace::preload

namespace gpumemtrace::preload::python {

struct Walk;  // python_walk.hpp

inline constexpr unsigned kFirstWithOwnLock = 12;      // first 3.x with a GIL per interpreter
inline constexpr std::size_t kInterpreterOffset = 16;  // in a thread state: its interpreter
// Offset, in the GIL's structure, of the thread state that has the GIL, or had it last.
inline constexpr std::size_t kLastHolderOffset = 8;

// Finds the cycle collector of a CPython 3.`minor`, and verifies its offsets by memory that is read
// through the kernel. Not known (`collecting` is 0) if the memory looks different.
Collector find_collector(unsigned minor, const void* runtime, const void* interpreter) noexcept;

enum class State : std::uint8_t {
  kNotLooked,  // no interpreter was looked for yet
  kAbsent,     // this process has none (so far)
  kOff,        // there is one, but its frames are not read; see reason()
  kOn,
};

extern constinit std::atomic<State> current_state
    [[gnu::visibility("hidden")]];  // set by refresh() and turn_off()
// Acquire: pairs with refresh(), whose findings are complete if the state is kOn.
inline State state() noexcept { return current_state.load(std::memory_order_acquire); }
std::string_view reason() noexcept;

// True if the interpreter's memory is still there: an embedded interpreter can be unloaded after
// its end. Callable while state() is kOn, on any thread. `seen_after_unloads` is unload_count() at
// the time when the interpreter was last found.
extern constinit std::atomic<std::uint32_t> seen_after_unloads [[gnu::visibility("hidden")]];
[[nodiscard]] bool look_whether_loaded() noexcept;
[[nodiscard]] inline bool is_loaded() noexcept {
  // Relaxed: the number is only compared, and a thread that sees an older number checks the memory.
  return (!unload_is_running() &&
          seen_after_unloads.load(std::memory_order_relaxed) == unload_count()) ||
         look_whether_loaded();
}

// The interpreter's version as PY_VERSION_HEX, 0x030c04f0 for 3.12.4; 0 = no interpreter.
std::uint32_t version_hex() noexcept;

// Searches the loaded libraries for an interpreter. For the background thread; cheap once an
// interpreter was found.
void refresh(LoaderList& modules) noexcept;
void turn_off(std::string_view why) noexcept;

// The interpreters of one process, in the layout of CPython's runtime; null if there is none.
struct Interpreters {
  const void* newest = nullptr;
  const void* main = nullptr;
};

// The interpreter of this process. The fields that every walk needs stand first.
struct Interpreter {
  using Read = bool (*)(const void* code_type, const void* thread_state, std::size_t capacity,
                        Walk& last) noexcept;

  Read read = nullptr;  // walks a thread's frames, compiled for this layout
  const void* code_type = nullptr;
  void* (*this_thread_state)() = nullptr;
  const void* const* finalizing = nullptr;  // word of the runtime, null until the interpreter ends
  const Layout* layout = nullptr;
  std::uint32_t version = 0;
  Read read_checked = nullptr;
  const void* runtime = nullptr;               // _PyRuntime
  std::uint64_t begin = 0;                     // address at which its file is loaded
  const Interpreters* interpreters = nullptr;  // points into the runtime
  std::size_t thread_list = 0;  // offset: Layout::thread_list, or from the interpreter's own table
  Collector collector;
};

extern constinit Interpreter known_interpreter
    [[gnu::visibility("hidden")]];  // refresh() fills it in
// The interpreter of this process; complete once state() is kOn.
inline const Interpreter& this_interpreter() noexcept { return known_interpreter; }

// True once the interpreter ends: threads then free thread states that other threads still use.
[[nodiscard]] inline bool is_finalizing(const Interpreter& python) noexcept {
  return __atomic_load_n(python.finalizing, __ATOMIC_RELAXED) != nullptr;  // relaxed as in CPython
}

}  // namespace gpumemtrace::preload::python

namespace gpumemtrace::preload::python {

// Tells whether Python's cycle collector runs on the calling thread: memory freed by it was held by
// unreachable reference cycles only.

// True if the collector of this process was found. Valid once state() is kOn.
[[nodiscard]] bool knows_collector() noexcept;

// Points to a word that is 0 while no thread collects: the flag of the only interpreter. If there
// are several interpreters, before 3.11, and after the interpreter's end, the word is never 0. Read
// it only while is_loaded().
extern constinit std::atomic<const std::uint32_t*> some_thread_collects
    [[gnu::visibility("hidden")]];
[[nodiscard]] bool collects_here() noexcept;

// Sets `some_thread_collects` for the interpreters that there are now. Called on the background
// thread, from time to time.
void watch_collector() noexcept;

// True if a collection of cycles runs on the calling thread. Any thread, no lock, no call of
// Python that could wait; false if it is not known, and while the interpreter ends.
[[nodiscard]] inline bool in_garbage_collection() noexcept {
  // Relaxed: the flag that the pointer leads to was initialized long before.
  return is_loaded() && *some_thread_collects.load(std::memory_order_relaxed) != 0 &&
         collects_here();
}

}  // namespace gpumemtrace::preload::python
