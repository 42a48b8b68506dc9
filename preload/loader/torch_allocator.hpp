// SPDX-License-Identifier: Apache-2.0
// The library that PyTorch's caching allocator of CUDA memory is in.
#pragma once

#include "preload/loader/elf_symbols.hpp"

namespace gpumemtrace::preload {

// Its variable c10::cuda::CUDACachingAllocator::allocator, a std::atomic<CUDAAllocator*>; nullptr
// if that library is not loaded. As find_symbol() of preload/loader/elf_symbols.hpp.
[[nodiscard]] inline void* find_torch_allocator() noexcept {
  return find_symbol("libc10_cuda.so", "_ZN3c104cuda20CUDACachingAllocator9allocatorE");
}

}  // namespace gpumemtrace::preload
