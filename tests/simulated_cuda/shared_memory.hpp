// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/state.hpp"

// Memory of one process in another: a 64-byte description says where the bytes lie in which
// process's memory file, and the other process maps the same part of that file.

namespace gpumemtrace::cuda_abi::simulated {

// Writes the description of an allocation into the 64 bytes of a shareable handle.
void describe_shared(const Allocation& allocation, void* handle);

// Maps what a description describes and remembers it as an allocation of this kind. A second
// opening gives the same address and counts up.
CUresult open_shared(const void* handle, Kind kind, CUmemoryPool pool, CUdeviceptr* address);

// Maps part of a file at a new device address, 0 when the operating system refuses.
std::uint64_t map_foreign(int file, std::uint64_t offset, std::uint64_t bytes);

}  // namespace gpumemtrace::cuda_abi::simulated
