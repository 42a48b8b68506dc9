// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/simulated_cuda/state.hpp"

// The memory of stream-ordered pools: segments of 32 MiB taken from the device, cut into pieces.
// A freed piece stays in the pool; whole free segments go back to the device when the pool is
// trimmed, or at a synchronisation where the pool holds more than its release threshold.

namespace gpumemtrace::cuda_abi::simulated {

CUmemoryPool create_pool(Device* device, const CUmemPoolProps& properties);
// A pool that still has allocations ends with the last of them.
void destroy_pool(CUmemoryPool pool);

// Returns 0 when the pool is at its maximum or the device is full.
std::uint64_t take_pool_memory(CUmemoryPool pool, std::uint64_t bytes);
void give_pool_memory(CUmemoryPool pool, std::uint64_t address, std::uint64_t bytes);

// Gives free segments back while more than `kept_bytes` are reserved.
void trim_pool(CUmemoryPool pool, std::uint64_t kept_bytes);
void trim_all_pools(Device* device, std::uint64_t kept_bytes);
// The effect of a synchronisation.
void trim_to_release_thresholds();

}  // namespace gpumemtrace::cuda_abi::simulated
