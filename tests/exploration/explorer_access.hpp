// SPDX-License-Identifier: Apache-2.0
// The calls of the functions that the compiler inserts (tsan_interface.cpp) to the explorer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/exploration/memory_model.hpp"

namespace gpumemtrace::exploration {

// Before the access itself; the calls return when it is the thread's turn.
void before_plain(const void* place, std::size_t bytes, PlainAccess access);

// An atomic access as the explorer has it made: `before_atomic()`, then for a load the value of
// `load()`, for anything else the access itself and `stored()`.
void before_atomic(const void* place, std::size_t bytes, bool writes);
std::uint64_t load(const void* place, std::uint64_t value, Order order);
void stored(const void* place, std::uint64_t old_value, std::uint64_t new_value, Order order,
            bool modifies);

}  // namespace gpumemtrace::exploration
