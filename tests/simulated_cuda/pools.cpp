// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/graph_memory.hpp"
#include "tests/simulated_cuda/implementations.hpp"
#include "tests/simulated_cuda/pool_memory.hpp"
#include "tests/simulated_cuda/shared_memory.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

// The context that a stream belongs to. It need not be current for a stream that the program made;
// the predefined streams belong to the current one.
CUresult context_of(CUstream stream, CUcontext* context) {
  const CUresult found = stream_get_context(stream, context);
  if (found != CUDA_SUCCESS) return found;
  if (!(*context)->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return state().sticky_error;
}

bool usable(CUmemoryPool pool) { return state().pools.has(pool) && !pool->destroyed; }

CUresult allocate_in_pool(CUdeviceptr* address, std::uint64_t bytes, CUmemoryPool pool,
                          CUstream handle) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  if (found != CUDA_SUCCESS) return found;
  if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return capture_allocation(stream, pool, bytes, address);
  }
  const std::uint64_t taken = take_pool_memory(pool, bytes);
  if (taken == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.address = taken;
  allocation.bytes = bytes;
  allocation.occupied_bytes = round_up(bytes, kSmallAlignment);
  allocation.kind = Kind::kPool;
  allocation.device = pool->device;
  allocation.pool = pool;
  remember(std::move(allocation));
  *address = taken;
  return CUDA_SUCCESS;
}

std::uint64_t* counter(CUmemoryPool pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return &pool->release_threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return &pool->reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return &pool->reserved_high_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return &pool->used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return &pool->used_high_bytes;
    default:
      return nullptr;
  }
}

CUresult pool_of_location(const CUmemLocation* location, Device** device) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  *device = find_device(location->id);
  return *device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

}  // namespace

CUresult alloc_async(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
  CUcontext context = nullptr;
  const CUresult found = context_of(stream, &context);
  return found == CUDA_SUCCESS
             ? allocate_in_pool(address, bytes, context->device->current_pool, stream)
             : found;
}

CUresult alloc_from_pool_async(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool,
                               CUstream stream) {
  CUcontext context = nullptr;
  const CUresult found = context_of(stream, &context);
  if (found != CUDA_SUCCESS) return found;
  if (!usable(pool) || pool->is_imported) return CUDA_ERROR_INVALID_VALUE;
  return allocate_in_pool(address, bytes, pool, stream);
}

CUresult free_async(CUdeviceptr address, CUstream stream) {
  CUcontext context = nullptr;
  const CUresult found = context_of(stream, &context);
  return found == CUDA_SUCCESS ? submit_free(stream, address) : found;
}

CUresult pool_create(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  const CUresult found = pool_of_location(&properties->location, &device);
  if (found != CUDA_SUCCESS) return found;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  *pool = create_pool(device, *properties);
  return CUDA_SUCCESS;
}

CUresult pool_destroy(CUmemoryPool pool) {
  if (!usable(pool) || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  destroy_pool(pool);
  return CUDA_SUCCESS;
}

CUresult pool_trim_to(CUmemoryPool pool, std::size_t kept_bytes) {
  if (!usable(pool)) return CUDA_ERROR_INVALID_VALUE;
  trim_pool(pool, kept_bytes);
  return CUDA_SUCCESS;
}

CUresult pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (!usable(pool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pool->settings.count(attribute) != 0) {
    int flag = 0;
    std::memcpy(&flag, value, sizeof flag);
    pool->settings[attribute] = static_cast<std::uint64_t>(flag);
    return CUDA_SUCCESS;
  }
  std::uint64_t wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->release_threshold_bytes = wanted;
    return CUDA_SUCCESS;
  }
  // A pool's high-water mark can only be reset to the current value, by writing 0.
  if (wanted != 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
    pool->reserved_high_bytes = pool->reserved_bytes;
    return CUDA_SUCCESS;
  }
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
    pool->used_high_bytes = pool->used_bytes;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (!usable(pool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pool->settings.count(attribute) != 0) {
    const int flag = static_cast<int>(pool->settings[attribute]);
    std::memcpy(value, &flag, sizeof flag);
    return CUDA_SUCCESS;
  }
  const std::uint64_t* number = counter(pool, attribute);
  if (number == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(value, number, sizeof *number);
  return CUDA_SUCCESS;
}

CUresult pool_set_access(CUmemoryPool pool, const CUmemAccessDesc* descriptions,
                         std::size_t count) {
  const bool complete = descriptions != nullptr || count == 0;
  return usable(pool) && complete ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_get_access(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation*) {
  if (!usable(pool) || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult device_set_mem_pool(CUdevice ordinal, CUmemoryPool pool) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!usable(pool) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = pool;
  return CUDA_SUCCESS;
}

CUresult device_get_mem_pool(CUmemoryPool* pool, CUdevice ordinal) {
  if (find_device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = find_device(ordinal)->current_pool;
  return CUDA_SUCCESS;
}

CUresult device_get_default_mem_pool(CUmemoryPool* pool, CUdevice ordinal) {
  if (find_device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = find_device(ordinal)->default_pool;
  return CUDA_SUCCESS;
}

CUresult location_get_default_mem_pool(CUmemoryPool* pool, CUmemLocation* location,
                                       CUmemAllocationType) {
  Device* device = nullptr;
  const CUresult found = pool_of_location(location, &device);
  if (found == CUDA_SUCCESS) *pool = device->default_pool;
  return found;
}

CUresult location_get_mem_pool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType) {
  Device* device = nullptr;
  const CUresult found = pool_of_location(location, &device);
  if (found == CUDA_SUCCESS) *pool = device->current_pool;
  return found;
}

CUresult location_set_mem_pool(CUmemLocation* location, CUmemAllocationType, CUmemoryPool pool) {
  Device* device = nullptr;
  const CUresult found = pool_of_location(location, &device);
  return found == CUDA_SUCCESS ? device_set_mem_pool(device->ordinal, pool) : found;
}

CUresult pool_export_handle(void* shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                            unsigned long long) {
  if (!usable(pool) || shareable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (pool->properties.handleTypes != type) return CUDA_ERROR_INVALID_VALUE;
  const int file = fcntl(state().backing.file(), F_DUPFD_CLOEXEC, 0);
  if (file == -1) return CUDA_ERROR_OPERATING_SYSTEM;
  std::memcpy(shareable, &file, sizeof file);
  return CUDA_SUCCESS;
}

CUresult pool_import_handle(CUmemoryPool* pool, void*, CUmemAllocationHandleType type,
                            unsigned long long) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemPoolProps properties{};
  properties.handleTypes = type;
  *pool = create_pool(state().devices.front().get(), properties);
  (*pool)->is_imported = true;
  return CUDA_SUCCESS;
}

CUresult pool_export_pointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  const Allocation* found = find_allocation_start(address);
  if (data == nullptr || found == nullptr || found->kind != Kind::kPool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  describe_shared(*found, data->reserved);
  return CUDA_SUCCESS;
}

CUresult pool_import_pointer(CUdeviceptr* address, CUmemoryPool pool,
                             CUmemPoolPtrExportData* data) {
  if (!usable(pool) || !pool->is_imported || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return open_shared(data->reserved, Kind::kPoolImport, pool, address);
}

}  // namespace gpumemtrace::cuda_abi::simulated
