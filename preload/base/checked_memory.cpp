// SPDX-License-Identifier: Apache-2.0
#include "preload/base/checked_memory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>

#include "preload/base/errno_keeper.hpp"
#include "preload/base/files.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kTextBlockBytes = 256;  // divides every page size

// Sandboxes that filter system calls often forbid process_vm_readv.
bool read_from_own_file(const iovec* ranges, std::size_t count, void* out) noexcept {
  const int descriptor = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  bool read = true;
  auto* position = static_cast<std::byte*>(out);
  for (std::size_t i = 0; i < count && read; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(ranges[i].iov_base);
    read = read_at(descriptor, address, position, ranges[i].iov_len) == 0;
    position += ranges[i].iov_len;
  }
  close(descriptor);
  return read;
}

}  // namespace

bool read_through_kernel(const void* address, void* out, std::size_t bytes) noexcept {
  const iovec range{const_cast<void*>(address), bytes};
  return read_through_kernel(&range, 1, out);
}

bool read_through_kernel(const iovec* ranges, std::size_t count, void* out) noexcept {
  const ErrnoKeeper errno_keeper;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += ranges[i].iov_len;
  const iovec local{out, bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, ranges, count, 0);
  bool read = got == static_cast<ssize_t>(bytes);
  if (got < 0 && errno != EFAULT) read = read_from_own_file(ranges, count, out);
  return read;
}

bool read_text_through_kernel(const char* address, char* out, std::size_t capacity) noexcept {
  std::size_t size = 0;
  while (size < capacity) {
    // Never across a page: what follows the text may not be mapped.
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
