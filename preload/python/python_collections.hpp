// SPDX-License-Identifier: Apache-2.0
// Knows whether Python's cycle collector runs on the calling thread: memory that it frees was
// unreachable, and the program did not have to free it.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/python/python_interpreter.hpp"

namespace gpumemtrace::preload::python {

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
[[nodiscard]] inline bool in_collection() noexcept {
  // Relaxed: the memory behind the pointer was complete long before.
  return is_loaded() && *some_thread_collects.load(std::memory_order_relaxed) != 0 &&
         collects_here();
}

}  // namespace gpumemtrace::preload::python
