// SPDX-License-Identifier: Apache-2.0
#include "preload/base/checked_memory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "preload/base/thread_guards.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kTextBlockBytes = 256;  // divides every page size

// Reads from /proc/self/mem: sandboxes that filter system calls often forbid process_vm_readv and
// process_vm_writev. Uses system calls directly, because libc's functions are cancellation points.
bool read_from_own_file(const iovec* ranges, std::size_t count, void* out) noexcept {
  const long descriptor =
      syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
  if (descriptor < 0) return false;
  bool read = true;
  auto* position = static_cast<std::byte*>(out);
  for (std::size_t i = 0; i < count && read; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(ranges[i].iov_base);
    const auto bytes = static_cast<long>(ranges[i].iov_len);
    read = syscall(SYS_pread64, descriptor, position, bytes, address) == bytes;
    position += bytes;
  }
  syscall(SYS_close, descriptor);
  return read;
}

// True if everything was read. `got` is the result of the system call; if the call was refused,
// reads from /proc/self/mem instead.
bool is_complete(ssize_t got, const iovec* ranges, std::size_t count, std::size_t bytes,
                 void* out) noexcept {
  if (got < 0 && errno != EFAULT) return read_from_own_file(ranges, count, out);
  return got == static_cast<ssize_t>(bytes);
}

}  // namespace

bool read_through_kernel(const void* address, void* out, std::size_t bytes) noexcept {
  const ErrnoKeeper errno_keeper;
  const iovec from{const_cast<void*>(address), bytes};
  const iovec to{out, bytes};
  return is_complete(process_vm_readv(getpid(), &to, 1, &from, 1, 0), &from, 1, bytes, out);
}

// Copies the ranges to `out` with process_vm_writev on the own process. The kernel looks up and
// pins the pages of the remote side, 0.4 us a range, so the remote side is `out` alone. The kernel
// copies the local side like any argument, 0.05 us a range, and notices there as well if memory is
// missing. Does not call libc's function: the ranges may be freed memory, for which a sanitizer's
// wrapper of that function would end the program.
bool read_through_kernel(const iovec* ranges, std::size_t count, void* out) noexcept {
  const ErrnoKeeper errno_keeper;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += ranges[i].iov_len;
  const iovec to{out, bytes};
  const long got = syscall(SYS_process_vm_writev, getpid(), ranges, count, &to, 1UL, 0UL);
  return is_complete(got, ranges, count, bytes, out);
}

bool read_text_through_kernel(const char* address, char* out, std::size_t capacity) noexcept {
  std::size_t size = 0;
  while (size < capacity) {
    // No read crosses a page boundary: the page behind the text may not be mapped.
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(address + size) % kTextBlockBytes;
    std::size_t block = kTextBlockBytes - offset;
    if (block > capacity - size) block = capacity - size;
    if (!read_through_kernel(address + size, out + size, block)) return false;
    if (memchr(out + size, '\0', block) != nullptr) return true;
    size += block;
  }
  return false;
}

}  // namespace gpumemtrace::preload
