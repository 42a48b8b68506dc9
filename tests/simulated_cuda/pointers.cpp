// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/simulated_cuda/implementations.hpp"

// cuPointerGetAttribute and related functions.

namespace gpumemtrace::cuda_abi::simulated {
namespace {

bool on_host(const Allocation& allocation) {
  return allocation.kind == Kind::kPinned || allocation.kind == Kind::kRegistered;
}

bool in_pool(const Allocation& allocation) {
  return allocation.kind == Kind::kPool || allocation.kind == Kind::kPoolImport;
}

template <typename T>
CUresult give(void* target, T value) {
  std::memcpy(target, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult read_attribute(void* data, CUpointer_attribute attribute, const Allocation& allocation,
                        CUdeviceptr address) {
  const bool host = on_host(allocation);
  const bool managed = allocation.kind == Kind::kManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, allocation.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && !managed) return CUDA_ERROR_INVALID_VALUE;
      return give(data, address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(data, static_cast<unsigned long long>(allocation.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, managed ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, allocation.device == nullptr ? -1 : allocation.device->ordinal);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(data, allocation.address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(data, std::size_t{allocation.bytes});
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(data, allocation.accessible);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(data, allocation.kind == Kind::kDevice);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, in_pool(allocation) ? allocation.pool : nullptr);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(data, 0U);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult pointer_get_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* found = find_allocation(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return read_attribute(data, attribute, *found, address);
}

// Attributes of an unknown address are left unchanged: cuPointerGetAttributes succeeds for any
// address.
CUresult pointer_get_attributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* found = find_allocation(address);
  for (unsigned int index = 0; index < count && found != nullptr; ++index) {
    const CUresult result = read_attribute(data[index], attributes[index], *found, address);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
  }
  return CUDA_SUCCESS;
}

CUresult pointer_set_attribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  if (value == nullptr || find_allocation(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool settable = attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  return settable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace gpumemtrace::cuda_abi::simulated
