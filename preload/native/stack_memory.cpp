// SPDX-License-Identifier: Apache-2.0
#include "preload/native/stack_memory.hpp"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/base/thread_guards.hpp"

namespace gpumemtrace::preload::native {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// The farthest that a thread's stack pointer jumps at once; a larger jump leads to another stack.
constexpr std::uint64_t kMostNewBytes = 1 << 20;
constexpr std::uint64_t kMostForeignBytes = 16 << 20;

std::uint64_t page_of(std::uint64_t address) noexcept { return address & ~(kPageBytes - 1); }

// An address above all frames of the calling thread. glibc puts a thread's static thread-local
// storage at the top of its stack; the kernel puts the random bytes for the program (AT_RANDOM)
// above the main thread's frames.
std::uint64_t top_of_stack() noexcept {
  if (syscall(SYS_gettid) == getpid()) return getauxval(AT_RANDOM) & ~std::uint64_t{7};
  return reinterpret_cast<std::uintptr_t>(&own_stack) & ~std::uint64_t{7};
}

// Calls sigprocmask with an operation that does not exist: the kernel reads the new signal mask, at
// `page`, before it refuses the operation.
bool page_is_readable(std::uint64_t page) noexcept {
  constexpr int kNoOperation = -1;
  constexpr std::size_t kMaskBytes = 8;
  return syscall(SYS_rt_sigprocmask, kNoOperation, page, nullptr, kMaskBytes) == -1 &&
         errno == EINVAL;
}

}  // namespace

constinit thread_local OwnStack own_stack [[gnu::tls_model("initial-exec")]] = {};

bool is_readable(std::uint64_t begin, std::uint64_t bytes) noexcept {
  const ErrnoKeeper errno_keeper;
  std::uint64_t page = page_of(begin);
  while (page < begin + bytes && page_is_readable(page)) page += kPageBytes;
  return page >= begin + bytes;
}

// Extends the checked part of the thread's own stack down to `stack_pointer` if it is near; else
// takes `stack_pointer` for the begin of another stack, of which nothing is checked yet.
void StackMemory::move_to_unchecked(std::uint64_t stack_pointer) noexcept {
  OwnStack& own = own_stack;
  if (own.high == 0) {
    own.high = top_of_stack();
    own.low = page_of(own.high);
    own_ = stack_pointer >= own.low && stack_pointer < own.high;
  }
  if (!own_ && stack_pointer < own.low && own.low - stack_pointer < kMostNewBytes &&
      is_readable(stack_pointer, own.low - stack_pointer)) {
    own.low = page_of(stack_pointer);
    own_ = true;
  }
  begin_ = own_ ? own.low : stack_pointer;
  end_ = own_ ? own.high : stack_pointer;
}

// Asks the kernel about more pages of a stack that is not the thread's own.
bool StackMemory::extend(std::uint64_t end) noexcept {
  if (own_ || end - end_ > kMostForeignBytes || !is_readable(end_, end - end_)) return false;
  end_ = page_of(end + kPageBytes - 1);
  return true;
}

bool StackMemory::read(std::uint64_t address, std::uint64_t& out) noexcept {
  const bool known = address >= begin_ && address < end_ && end_ - address >= sizeof out;
  if (!known && (address > ~std::uint64_t{0} - sizeof out || !is_readable(address, sizeof out))) {
    return false;
  }
  memcpy(&out, reinterpret_cast<const void*>(address), sizeof out);
  return true;
}

}  // namespace gpumemtrace::preload::native
