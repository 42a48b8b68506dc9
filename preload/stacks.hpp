// Interned call stacks. A stack that was seen before costs its walk, its hash and one look-up; a
// new one is written to the trace once, with the code objects that it names for the first time.
//
// - Any thread, no lock, no allocation; the caller holds a CallGuard and may record.
// - A StackId is 1 + the stack's slot in the table, so two threads that meet the same new stack
//   agree on its number without waiting for each other.
// - 0: no stack. The thread has none, stacks are switched off, or the table is full (counted).
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

class CallGuard;

// The calling thread's stack.
std::uint32_t current_stack(const CallGuard& guard) noexcept;

// Empties the tables: a new trace needs every stack again. Before the session's first record.
// False where there is no memory for them.
bool reset_stacks(bool python, std::uint32_t depth) noexcept;

// Stacks that were not recorded because the table was full.
std::uint64_t stacks_without_room() noexcept;

}  // namespace gpumemtrace::preload
