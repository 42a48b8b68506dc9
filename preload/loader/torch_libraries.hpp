// SPDX-License-Identifier: Apache-2.0
// Facts that are read from the loaded libraries of PyTorch and their folder, without running
// Python.
#pragma once

#include <cstddef>

#include "preload/loader/elf_symbols.hpp"

namespace gpumemtrace::preload {

class LoaderList;

// The version of the loaded PyTorch, from a file of its package beside the libraries. For the
// background thread. Puts the version ("2.11.0+cu130") into `out` and returns its bytes; 0 if there
// is no PyTorch or its file has an unknown form.
std::size_t read_torch_version(const LoaderList& modules, char* out, std::size_t capacity) noexcept;

// The variable c10::cuda::CUDACachingAllocator::allocator of PyTorch's libc10_cuda.so, a
// std::atomic<CUDAAllocator*>; nullptr if that library is not loaded. The rules of find_symbol()
// (preload/loader/elf_symbols.hpp) hold.
[[nodiscard]] inline void* find_torch_allocator() noexcept {
  return find_symbol("libc10_cuda.so", "_ZN3c104cuda20CUDACachingAllocator9allocatorE");
}

}  // namespace gpumemtrace::preload
