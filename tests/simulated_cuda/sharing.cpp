// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "tests/simulated_cuda/implementations.hpp"
#include "tests/simulated_cuda/shared_memory.hpp"

// Driver functions for IPC handles and external memory.

namespace gpumemtrace::cuda_abi::simulated {

CUresult ipc_get_mem_handle(CUipcMemHandle* handle, CUdeviceptr address) {
  const Allocation* found = find_allocation(address);
  if (handle == nullptr || found == nullptr || found->kind != Kind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  describe_shared(*found, handle->reserved);
  return CUDA_SUCCESS;
}

CUresult ipc_open_mem_handle(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  return open_shared(handle.reserved, Kind::kIpc, nullptr, address);
}

CUresult ipc_close_mem_handle(CUdeviceptr address) {
  Allocation* found = find_allocation(address);
  if (found == nullptr || found->kind != Kind::kIpc) return CUDA_ERROR_INVALID_VALUE;
  if (--found->open_count == 0) release_allocation(found->address);
  return CUDA_SUCCESS;
}

CUresult import_external_memory(CUexternalMemory* memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  if (memory == nullptr || description == nullptr || description->size == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (description->handle.fd < 0) return CUDA_ERROR_INVALID_VALUE;
  *memory = state().external_memories.create();
  (*memory)->file = description->handle.fd;  // the driver owns the descriptor now
  (*memory)->bytes = description->size;
  return CUDA_SUCCESS;
}

CUresult external_memory_get_mapped_buffer(CUdeviceptr* address, CUexternalMemory memory,
                                           const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  if (address == nullptr || description == nullptr || !state().external_memories.has(memory)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (description->size == 0 || description->offset + description->size > memory->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint64_t occupied = round_up(description->size, kGranuleBytes);
  const std::uint64_t mapped = map_foreign(memory->file, description->offset, occupied);
  if (mapped == 0) return CUDA_ERROR_MAP_FAILED;
  Allocation allocation;
  allocation.address = mapped;
  allocation.bytes = description->size;
  allocation.occupied_bytes = occupied;
  allocation.kind = Kind::kExternal;
  allocation.context = current_context();
  allocation.device = current_context()->device;
  remember(std::move(allocation));
  *address = mapped;
  return CUDA_SUCCESS;
}

CUresult destroy_external_memory(CUexternalMemory memory) {
  if (!state().external_memories.has(memory)) return CUDA_ERROR_INVALID_HANDLE;
  close(memory->file);
  state().external_memories.destroy(memory);
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
