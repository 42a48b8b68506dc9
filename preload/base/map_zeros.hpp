// SPDX-License-Identifier: Apache-2.0
// Memory from the system, for tables.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace gpumemtrace::preload {

// Memory of zeros, whose pages the system allocates when they are touched; nullptr if the system
// has no room.
inline void* map_zeros(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Fills memory that map_zeros() gave with zeros again; calls map_zeros() if there is none yet.
inline void* map_zeros_anew(void* before, std::size_t bytes) noexcept {
  if (before == nullptr) return map_zeros(bytes);
  madvise(before, bytes, MADV_DONTNEED);
  return before;
}

}  // namespace gpumemtrace::preload
