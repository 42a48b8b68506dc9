// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/state.hpp"

// Shares memory between processes: a 64-byte description names the process, its memory file and the
// offset of the bytes in it, and the other process maps the same part of that file.

namespace gpumemtrace::cuda_abi::simulated {

// Writes the description of an allocation into the 64 bytes of a shareable handle.
void describe_shared(const Allocation& allocation, void* handle);

// Maps the memory that the description in `handle` names, and remembers it as an allocation of the
// given kind. A second opening returns the same address and counts up.
CUresult open_shared(const void* handle, Kind kind, CUmemoryPool pool, CUdeviceptr* address);

// Maps a part of a file at a new device address; returns 0 if the operating system refuses.
std::uint64_t map_foreign(int file, std::uint64_t offset, std::uint64_t bytes);

}  // namespace gpumemtrace::cuda_abi::simulated
