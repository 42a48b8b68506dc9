// SPDX-License-Identifier: Apache-2.0
// The explorer's functions for the ones that the compiler inserts at accesses (tsan_interface.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/exploration/memory_model.hpp"

namespace gpumemtrace::exploration {

// Called before a plain access; returns when it is the thread's turn.
void before_plain(const void* place, std::size_t bytes, PlainAccess access);

// The calls for one atomic access: before_atomic(), then for a load load(), whose result replaces
// the loaded value, and for a store or a read-modify-write the access itself and stored().
void before_atomic(const void* place, std::size_t bytes, bool writes);
std::uint64_t load(const void* place, std::uint64_t value, Order order);
void stored(const void* place, std::uint64_t old_value, std::uint64_t new_value, Order order,
            bool modifies);

}  // namespace gpumemtrace::exploration
