// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/implementations.hpp"

// Placement (prefetch, advice) of managed memory: arguments are checked, but nothing moves, because
// the simulated driver's managed memory is host memory.

namespace gpumemtrace::cuda_abi::simulated {
namespace {

bool is_managed(CUdeviceptr address, std::size_t bytes) {
  const Allocation* found = find_allocation(address);
  return found != nullptr && found->kind == Kind::kManaged &&
         address + bytes <= found->address + found->bytes;
}

CUresult place(CUdeviceptr address, std::size_t bytes, CUmemLocation location) {
  if (bytes == 0 || !is_managed(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && find_device(location.id) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return CUDA_SUCCESS;
}

CUmemLocation location_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult check_batch(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count) {
  if (addresses == nullptr || sizes == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t index = 0; index < count; ++index) {
    if (!is_managed(addresses[index], sizes[index])) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult check_stream(CUstream handle, CUresult result) {
  CUstream stream = nullptr;
  const CUresult found = find_stream(handle, &stream);
  return found == CUDA_SUCCESS ? result : found;
}

}  // namespace

CUresult prefetch_async_v1(CUdeviceptr address, std::size_t bytes, CUdevice device,
                           CUstream stream) {
  return check_stream(stream, place(address, bytes, location_of(device)));
}

CUresult prefetch_async(CUdeviceptr address, std::size_t bytes, CUmemLocation location,
                        unsigned int, CUstream stream) {
  return check_stream(stream, place(address, bytes, location));
}

CUresult prefetch_batch_async(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count,
                              CUmemLocation*, std::size_t*, std::size_t, unsigned long long,
                              CUstream stream) {
  return check_stream(stream, check_batch(addresses, sizes, count));
}

CUresult discard_batch_async(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count,
                             unsigned long long, CUstream stream) {
  return check_stream(stream, check_batch(addresses, sizes, count));
}

CUresult advise_v1(CUdeviceptr address, std::size_t bytes, CUmem_advise, CUdevice device) {
  return place(address, bytes, location_of(device));
}

CUresult advise(CUdeviceptr address, std::size_t bytes, CUmem_advise, CUmemLocation location) {
  return place(address, bytes, location);
}

CUresult stream_attach_async(CUstream stream, CUdeviceptr address, std::size_t, unsigned int) {
  const Allocation* found = find_allocation(address);
  const bool managed = found != nullptr && found->kind == Kind::kManaged;
  return check_stream(stream, managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

}  // namespace gpumemtrace::cuda_abi::simulated
