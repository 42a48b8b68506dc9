// SPDX-License-Identifier: Apache-2.0
// The interpreter of this process: whether there is one, its version, the addresses to read, and
// its cycle collector.
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

inline constexpr unsigned kFirstWithOwnLock = 12;      // minor version; before, the runtime has it
inline constexpr std::size_t kInterpreterOffset = 16;  // in the thread state
// In the lock: the thread state that has it, or had it last.
inline constexpr std::size_t kLastHolderOffset = 8;

// The collector of a CPython 3.`minor`, verified against its memory, which is read through the
// kernel. Not known if the memory looks different.
Collector find_collector(unsigned minor, const void* runtime, const void* interpreter) noexcept;

enum class State : std::uint8_t {
  kNotLooked,  // no interpreter was looked for yet
  kAbsent,     // this process has none (so far)
  kOff,        // there is one, but its frames are not read; see reason()
  kOn,
};

extern constinit std::atomic<State> current_state
    [[gnu::visibility("hidden")]];  // refresh() and turn_off() set it
// Acquire: pairs with refresh(): what it found is complete if this is kOn.
inline State state() noexcept { return current_state.load(std::memory_order_acquire); }
std::string_view reason() noexcept;

// True if the interpreter's memory is still there: an embedded one can be unloaded after its end.
// While state() is kOn; any thread.
extern constinit std::atomic<std::uint32_t> seen_after_unloads [[gnu::visibility("hidden")]];
[[nodiscard]] bool look_whether_loaded() noexcept;
[[nodiscard]] inline bool is_loaded() noexcept {
  // Relaxed: only a number, and a thread that sees an older one checks.
  return (!unload_is_running() &&
          seen_after_unloads.load(std::memory_order_relaxed) == unload_count()) ||
         look_whether_loaded();
}

// 0x030c04f0 for 3.12.4, as PY_VERSION_HEX; 0 = none.
std::uint32_t version_hex() noexcept;

// Searches the loaded libraries for an interpreter; background thread, cheap once found.
void refresh(LoaderList& modules) noexcept;
void turn_off(std::string_view why) noexcept;

// The interpreters of one process, as the runtime has them; null if there is none.
struct Interpreters {
  const void* newest = nullptr;
  const void* main = nullptr;
};

// The interpreter of this process. The fields that every walk needs stand first.
struct Interpreter {
  using Read = bool (*)(const void* code_type, const void* thread_state, std::size_t capacity,
                        Walk& last) noexcept;

  Read read = nullptr;  // one more walk of a thread, by the layout
  const void* code_type = nullptr;
  void* (*this_thread_state)() = nullptr;
  const void* const* finalizing = nullptr;  // in the runtime: 0 until the interpreter ends
  const Layout* layout = nullptr;
  std::uint32_t version = 0;
  Read read_checked = nullptr;
  const void* runtime = nullptr;               // _PyRuntime
  std::uint64_t begin = 0;                     // of the file that it belongs to
  const Interpreters* interpreters = nullptr;  // in the runtime
  std::size_t thread_list = 0;  // Layout::thread_list, or what the interpreter's own table says
  Collector collector;
};

extern constinit Interpreter known_interpreter
    [[gnu::visibility("hidden")]];  // refresh() fills it in
// Complete once state() is kOn.
inline const Interpreter& this_interpreter() noexcept { return known_interpreter; }

// From then on threads free thread states that others still use.
[[nodiscard]] inline bool is_finalizing(const Interpreter& python) noexcept {
  return __atomic_load_n(python.finalizing, __ATOMIC_RELAXED) != nullptr;  // as CPython reads it
}

}  // namespace gpumemtrace::preload::python

namespace gpumemtrace::preload::python {

// Knows whether Python's cycle collector runs on the calling thread: memory that it frees was
// unreachable, and the program did not have to free it.

// True if the collector of this process was found. Valid once state() is kOn.
[[nodiscard]] bool knows_collector() noexcept;

// Points to a word that is 0 while no thread collects: the flag of the only interpreter. If there
// are more interpreters, the word is never 0. Read it only while is_loaded().
extern constinit std::atomic<const std::uint32_t*> some_thread_collects
    [[gnu::visibility("hidden")]];
[[nodiscard]] bool collects_here() noexcept;

// Sets `some_thread_collects` for the interpreters that there are now. Background thread, from time
// to time.
void watch_collector() noexcept;

// True if a collection of cycles runs on the calling thread. Any thread, no lock, no call of
// Python that could wait; false if it is not known, and while the interpreter ends.
[[nodiscard]] inline bool in_garbage_collection() noexcept {
  // Relaxed: the memory behind the pointer was complete long before.
  return is_loaded() && *some_thread_collects.load(std::memory_order_relaxed) != 0 &&
         collects_here();
}

}  // namespace gpumemtrace::preload::python
