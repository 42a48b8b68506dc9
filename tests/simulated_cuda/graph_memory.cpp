// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/graph_memory.hpp"

#include <algorithm>

#include "tests/simulated_cuda/capture.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

CUresult free_now(CUdeviceptr address) {
  const Allocation* found = find_allocation_start(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (found->kind) {
    case Kind::kDevice:
    case Kind::kPool:
    case Kind::kPoolImport:
    case Kind::kGraph:
      release_allocation(address);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUdeviceptr reserve_graph_addresses(std::uint64_t bytes) {
  return state().addresses.take(round_up(bytes, kGranuleBytes), kGranuleBytes).value_or(0);
}

CUresult capture_allocation(CUstream stream, CUmemoryPool pool, std::uint64_t bytes,
                            CUdeviceptr* address) {
  *address = reserve_graph_addresses(bytes);
  if (*address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  CUgraphNode node = capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                  allocation_work(pool->device, *address, bytes));
  node->allocation.poolProps = pool->properties;
  node->allocation.bytesize = bytes;
  node->allocation.dptr = *address;
  return CUDA_SUCCESS;
}

CUresult submit_free(CUstream stream, CUdeviceptr address) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, free_work(address));
}

Work allocation_work(Device* device, CUdeviceptr address, std::uint64_t bytes) {
  CUcontext context = current_context();
  return [=]() -> CUresult {
    if (find_allocation_start(address) != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t occupied = round_up(bytes, kGranuleBytes);
    const std::uint64_t wanted = device->graph_used_bytes + occupied;
    if (wanted > device->graph_reserved_bytes) {
      if (!charge(device, wanted - device->graph_reserved_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
      device->graph_reserved_bytes = wanted;
    }
    device->graph_used_bytes = wanted;
    device->graph_used_high_bytes = std::max(device->graph_used_high_bytes, wanted);
    device->graph_reserved_high_bytes =
        std::max(device->graph_reserved_high_bytes, device->graph_reserved_bytes);
    Allocation allocation;
    allocation.address = address;
    allocation.bytes = bytes;
    allocation.occupied_bytes = occupied;
    allocation.kind = Kind::kGraph;
    allocation.context = context;
    allocation.device = device;
    remember(std::move(allocation));
    return CUDA_SUCCESS;
  };
}

Work free_work(CUdeviceptr address) {
  return [address] { return free_now(address); };
}

void trim_graph_memory(Device* device) {
  refund(device, device->graph_reserved_bytes - device->graph_used_bytes);
  device->graph_reserved_bytes = device->graph_used_bytes;
}

}  // namespace gpumemtrace::cuda_abi::simulated
