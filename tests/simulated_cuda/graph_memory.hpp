// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/state.hpp"

// Allocations made by graph nodes: the address is fixed when the node is made; the memory is there
// from the graph's launch until a free node, a free call or the end of the context.

namespace gpumemtrace::cuda_abi::simulated {

// Adds a node for an allocation to the graph of a capturing stream.
CUresult capture_allocation(CUstream stream, CUmemoryPool pool, std::uint64_t bytes,
                            CUdeviceptr* address);

// Frees memory in stream order, or adds a free node if the stream is capturing.
CUresult submit_free(CUstream stream, CUdeviceptr address);

// Return the work that an allocation node and a free node do when their graph is launched.
Work allocation_work(Device* device, CUdeviceptr address, std::uint64_t bytes);
Work free_work(CUdeviceptr address);

// Reserves the addresses of an allocation node. Returns 0 if there are none left.
CUdeviceptr reserve_graph_addresses(std::uint64_t bytes);

// Gives the memory that graphs have freed back to the device.
void trim_graph_memory(Device* device);

}  // namespace gpumemtrace::cuda_abi::simulated
