// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/state.hpp"

// Allocations made by graphs: the address is fixed when the node is made, the memory is there from
// the launch on until a free node, a free call or the end of the context.

namespace gpumemtrace::cuda_abi::simulated {

// A node for an allocation in a capturing stream.
CUresult capture_allocation(CUstream stream, CUmemoryPool pool, std::uint64_t bytes,
                            CUdeviceptr* address);

// Frees in stream order, or adds a free node where the stream is capturing.
CUresult submit_free(CUstream stream, CUdeviceptr address);

// The work of an allocation node and of a free node at launch.
Work allocation_work(Device* device, CUdeviceptr address, std::uint64_t bytes);
Work free_work(CUdeviceptr address);

// Takes the addresses of an allocation node. Returns 0 when there are none left.
CUdeviceptr reserve_graph_addresses(std::uint64_t bytes);

// Gives memory that graphs have freed back to the device.
void trim_graph_memory(Device* device);

}  // namespace gpumemtrace::cuda_abi::simulated
