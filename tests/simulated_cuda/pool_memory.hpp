// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/simulated_cuda/state.hpp"

// The memory of stream-ordered pools: segments of 32 MiB taken from the device, cut into pieces.
// A freed piece stays in the pool; whole free segments go back to the device when the pool is
// trimmed, or at a synchronisation if the pool holds more than its release threshold.

namespace gpumemtrace::cuda_abi::simulated {

CUmemoryPool create_pool(Device* device, const CUmemPoolProps& properties);
// A pool that still has allocations is destroyed when the last of them is freed.
void destroy_pool(CUmemoryPool pool);

// Allocates from a pool. Returns 0 if the pool is at its maximum size or the device is full.
std::uint64_t take_pool_memory(CUmemoryPool pool, std::uint64_t bytes);
void give_pool_memory(CUmemoryPool pool, std::uint64_t address, std::uint64_t bytes);

// Gives a pool's free segments back to the device while more than `kept_bytes` are reserved.
void trim_pool(CUmemoryPool pool, std::uint64_t kept_bytes);
void trim_all_pools(Device* device, std::uint64_t kept_bytes);
// At a synchronisation, trims each pool to its release threshold.
void trim_to_release_thresholds();

}  // namespace gpumemtrace::cuda_abi::simulated
