// SPDX-License-Identifier: Apache-2.0
// The memory that a walk up the calling thread's stack may read. Reading other memory could fault.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::native {

// The part of a thread's own stack that is known to be readable.
struct OwnStack {
  std::uint64_t low;   // start of the lowest page checked so far
  std::uint64_t high;  // top of the stack; 0 until the first walk
};
// Static thread-local storage, so the initial-exec model: reaching it must not allocate.
extern constinit thread_local OwnStack own_stack [[gnu::tls_model("initial-exec")]];

// The memory that one walk may read. Belongs to the thread that made the object.
//
// - On the thread's own stack, everything from the deepest stack pointer seen so far to the stack's
//   top is known to be readable: no system call while the thread does not go deeper.
// - On other stacks (an alternate signal stack, a coroutine's), the kernel is asked about each page
//   when the walk reaches it.
class StackMemory {
 public:
  explicit StackMemory(std::uint64_t stack_pointer) noexcept { move_to(stack_pointer); }

  // Continues the walk at `stack_pointer`: beyond a signal frame this may be on another stack.
  void move_to(std::uint64_t stack_pointer) noexcept {
    const OwnStack& own = own_stack;
    own_ = stack_pointer >= own.low && stack_pointer < own.high;
    if (!own_) [[unlikely]]
      return move_to_unchecked(stack_pointer);
    begin_ = own.low;
    end_ = own.high;
  }

  // True if everything from the stack pointer up to `end` can be read.
  [[nodiscard]] bool reaches(std::uint64_t end) noexcept { return end <= end_ || extend(end); }

  // Reads any address; false if it cannot be read. Slow for an address outside the part of the
  // stack that was checked before.
  [[nodiscard]] bool read(std::uint64_t address, std::uint64_t& out) noexcept;

 private:
  // move_to() for a stack pointer below the checked part of the own stack, or on another stack.
  void move_to_unchecked(std::uint64_t stack_pointer) noexcept;
  [[nodiscard]] bool extend(std::uint64_t end) noexcept;

  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  bool own_ = false;
};

// True if the whole of [begin, begin + bytes) can be read. One system call a page.
[[nodiscard]] bool is_readable(std::uint64_t begin, std::uint64_t bytes) noexcept;

}  // namespace gpumemtrace::preload::native
