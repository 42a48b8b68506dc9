// SPDX-License-Identifier: Apache-2.0
// Finds the state of an interpreter's cycle collector: whether it runs, and on which thread.
#pragma once

#include <cstddef>

#include "preload/python/python_types.hpp"

namespace gpumemtrace::preload::python {

inline constexpr unsigned kFirstWithOwnLock = 12;      // minor version; before, the runtime has it
inline constexpr std::size_t kInterpreterOffset = 16;  // in the thread state
// In the lock: the thread state that has it, or had it last.
inline constexpr std::size_t kLastHolderOffset = 8;

// The collector of a CPython 3.`minor`, verified against its memory, which is read through the
// kernel. Not known if the memory looks different.
Collector find_collector(unsigned minor, const void* runtime, const void* interpreter) noexcept;

}  // namespace gpumemtrace::preload::python
