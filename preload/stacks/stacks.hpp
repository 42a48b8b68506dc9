// SPDX-License-Identifier: Apache-2.0
// Interned call stacks. A stack that was seen before costs its walk, its hash and one look-up; a
// new one is written to the trace once, with the code objects that it names for the first time.
//
// - Any thread, no lock, no allocation; the caller holds a CallGuard and may record.
// - A StackId is 1 + the stack's slot in the table, so two threads that meet the same new stack
//   agree on its number without waiting for each other.
// - kNone: no stack. The thread has none, stacks are switched off, or the table is full (counted).
// - Python and native frames are cut at the depth limit, each at its outer end; a record has room
//   for 251 frames, of which native ones give way first, down to half.
#pragma once

#include <cstdint>
#include <string_view>

#include "preload/base/config.hpp"
#include "preload/native/native_frames.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

class CallGuard;

// The use of a stack decides how much of it NativeStacks::kAuto takes.
enum class StackUse {
  kCall,        // a call of the driver: always native frames
  kBlock,       // stream-ordered memory, a framework's block: native if there are no Python frames
  kTorchBlock,  // a block of PyTorch from 2.0 on: as kBlock, and whether autograd is on
  kRelease,     // memory is freed: no stack, because it says nothing about who held the memory
};

// The calling thread's stack, from the hook's caller on.
trace::StackId walk_current_stack(const CallGuard& guard, const native::Caller& caller,
                                  StackUse use) noexcept;
// A free, which is every second event, needs no stack and skips the walk.
[[gnu::always_inline]] inline trace::StackId current_stack(const CallGuard& guard,
                                                           const native::Caller& caller,
                                                           StackUse use) noexcept {
  return use == StackUse::kRelease ? trace::StackId::kNone : walk_current_stack(guard, caller, use);
}

// Writes a WaitingStack record with the calling thread's Python stack: the thread waits for
// PyTorch's autograd engine from here on. False if it has no Python stack, or the ring no room.
[[nodiscard]] bool record_waiting_stack(const CallGuard& guard) noexcept;

// True if one of the calling thread's nearest callers is code of the loaded file around the
// address. Any thread, no lock; half a microsecond a frame.
[[nodiscard]] bool is_called_from_library_of(const void* address) noexcept;

// Empties the tables: a new trace needs every stack again. To be called before the session's first
// record.
void reset_stacks(const Config& config) noexcept;

// The reason why Python or native frames are not recorded although the thread may have them; empty
// if they are recorded.
std::string_view python_stacks_off() noexcept;
std::string_view native_stacks_off() noexcept;

// The number of stacks that were not recorded because the table was full.
std::uint64_t stacks_without_room() noexcept;

}  // namespace gpumemtrace::preload
