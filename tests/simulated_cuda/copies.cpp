// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/simulated_cuda/activity.hpp"
#include "tests/simulated_cuda/box_copy.hpp"
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/implementations.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

std::uint64_t address_of(const void* host) { return reinterpret_cast<std::uint64_t>(host); }

CUresult move_bytes(std::byte* destination, const std::byte* source, std::size_t bytes) {
  if (destination == nullptr || source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memmove(destination, source, bytes);
  return CUDA_SUCCESS;
}

// The sides of a copy that must be addresses of memory that a device can use.
enum class DeviceSide { kNone, kSource, kDestination, kBoth };

CUresult copy_now(std::uint64_t destination, std::uint64_t source, std::size_t bytes,
                  DeviceSide side) {
  if (bytes == 0) return CUDA_SUCCESS;
  const bool source_on_device = side == DeviceSide::kSource || side == DeviceSide::kBoth;
  const bool destination_on_device = side == DeviceSide::kDestination || side == DeviceSide::kBoth;
  const CUresult result = move_bytes(
      destination_on_device ? resolve_device(destination, bytes) : resolve(destination, bytes),
      source_on_device ? resolve_device(source, bytes) : resolve(source, bytes), bytes);
  if (result == CUDA_SUCCESS) announce_copy(bytes, source, destination);
  return result;
}

CUresult copy_in_stream(std::uint64_t destination, std::uint64_t source, std::size_t bytes,
                        DeviceSide side, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy_now(destination, source, bytes, side); });
}

// The address of the bytes [offset, offset + bytes) of an array, counted from its first row; 0 if
// the array is not live or too small.
std::uint64_t in_array(CUarray array, std::size_t offset, std::size_t bytes) {
  const bool fits = state().arrays.has(array) && offset + bytes <= array->bytes;
  return fits ? array->address + offset : 0;
}

}  // namespace

CUresult copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  return copy_now(destination, source, bytes, DeviceSide::kNone);
}

CUresult copy_async(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                    CUstream stream) {
  return copy_in_stream(destination, source, bytes, DeviceSide::kNone, stream);
}

CUresult copy_peer(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext,
                   std::size_t bytes) {
  return copy_now(destination, source, bytes, DeviceSide::kBoth);
}

CUresult copy_peer_async(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext,
                         std::size_t bytes, CUstream stream) {
  return copy_in_stream(destination, source, bytes, DeviceSide::kBoth, stream);
}

CUresult copy_h_to_d(CUdeviceptr destination, const void* source, std::size_t bytes) {
  return copy_now(destination, address_of(source), bytes, DeviceSide::kDestination);
}

CUresult copy_h_to_d_async(CUdeviceptr destination, const void* source, std::size_t bytes,
                           CUstream stream) {
  return copy_in_stream(destination, address_of(source), bytes, DeviceSide::kDestination, stream);
}

CUresult copy_d_to_h(void* destination, CUdeviceptr source, std::size_t bytes) {
  return copy_now(address_of(destination), source, bytes, DeviceSide::kSource);
}

CUresult copy_d_to_h_async(void* destination, CUdeviceptr source, std::size_t bytes,
                           CUstream stream) {
  return copy_in_stream(address_of(destination), source, bytes, DeviceSide::kSource, stream);
}

CUresult copy_d_to_d(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  return copy_now(destination, source, bytes, DeviceSide::kBoth);
}

CUresult copy_d_to_d_async(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                           CUstream stream) {
  return copy_in_stream(destination, source, bytes, DeviceSide::kBoth, stream);
}

CUresult copy_d_to_a(CUarray destination, std::size_t offset, CUdeviceptr source,
                     std::size_t bytes) {
  return copy_now(in_array(destination, offset, bytes), source, bytes, DeviceSide::kBoth);
}

CUresult copy_a_to_d(CUdeviceptr destination, CUarray source, std::size_t offset,
                     std::size_t bytes) {
  return copy_now(destination, in_array(source, offset, bytes), bytes, DeviceSide::kBoth);
}

CUresult copy_h_to_a(CUarray destination, std::size_t offset, const void* source,
                     std::size_t bytes) {
  return copy_now(in_array(destination, offset, bytes), address_of(source), bytes,
                  DeviceSide::kDestination);
}

CUresult copy_a_to_h(void* destination, CUarray source, std::size_t offset, std::size_t bytes) {
  return copy_now(address_of(destination), in_array(source, offset, bytes), bytes,
                  DeviceSide::kSource);
}

CUresult copy_h_to_a_async(CUarray destination, std::size_t offset, const void* source,
                           std::size_t bytes, CUstream stream) {
  return copy_in_stream(in_array(destination, offset, bytes), address_of(source), bytes,
                        DeviceSide::kDestination, stream);
}

CUresult copy_a_to_h_async(void* destination, CUarray source, std::size_t offset, std::size_t bytes,
                           CUstream stream) {
  return copy_in_stream(address_of(destination), in_array(source, offset, bytes), bytes,
                        DeviceSide::kSource, stream);
}

CUresult copy_a_to_a(CUarray destination, std::size_t destination_offset, CUarray source,
                     std::size_t source_offset, std::size_t bytes) {
  return copy_now(in_array(destination, destination_offset, bytes),
                  in_array(source, source_offset, bytes), bytes, DeviceSide::kBoth);
}

CUresult copy_batch_async(CUdeviceptr* destinations, CUdeviceptr* sources, std::size_t* sizes,
                          std::size_t count, CUmemcpyAttributes* attributes,
                          std::size_t* attribute_indices, std::size_t attribute_count,
                          CUstream stream) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  const bool default_stream = value == 0 || value == CU_STREAM_LEGACY;
  if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0 ||
      attributes == nullptr || attribute_indices == nullptr || attribute_count == 0 ||
      attribute_count > count || default_stream) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t index = 0; index < count; ++index) {
    const CUresult result = copy_in_stream(destinations[index], sources[index], sizes[index],
                                           DeviceSide::kNone, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult copy_batch_async_v1(CUdeviceptr* destinations, CUdeviceptr* sources, std::size_t* sizes,
                             std::size_t count, CUmemcpyAttributes* attributes,
                             std::size_t* attribute_indices, std::size_t attribute_count,
                             std::size_t* failed_index, CUstream stream) {
  const CUresult result = copy_batch_async(destinations, sources, sizes, count, attributes,
                                           attribute_indices, attribute_count, stream);
  if (result != CUDA_SUCCESS && failed_index != nullptr) *failed_index = SIZE_MAX;
  return result;
}

CUresult copy_3d_batch_async(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                             unsigned long long flags, CUstream stream) {
  if (operations == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t index = 0; index < count; ++index) {
    const BoxCopy box = box_of(operations[index]);
    const CUresult result =
        submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [box] { return copy_box(box); });
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult copy_3d_batch_async_v1(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                                std::size_t* failed_index, unsigned long long flags,
                                CUstream stream) {
  const CUresult result = copy_3d_batch_async(count, operations, flags, stream);
  if (result != CUDA_SUCCESS && failed_index != nullptr) *failed_index = SIZE_MAX;
  return result;
}

}  // namespace gpumemtrace::cuda_abi::simulated
