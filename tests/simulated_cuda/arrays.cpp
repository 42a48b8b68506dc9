// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/simulated_cuda/implementations.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

std::uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

std::uint64_t at_least_one(std::uint64_t value) { return std::max<std::uint64_t>(value, 1); }

// Computes the layout of an array (or of one mipmap level) without allocating its memory.
CUresult lay_out(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, CUarray array) {
  const std::uint64_t channel = channel_bytes(descriptor.Format);
  const unsigned int channels = descriptor.NumChannels;
  const bool known_channels = channels == 1 || channels == 2 || channels == 4;
  if (descriptor.Width == 0 || channel == 0 || !known_channels) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned int kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
  if ((descriptor.Flags & kWithoutMemory) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  array->context = current_context();
  array->descriptor = descriptor;
  array->row_bytes = descriptor.Width * channel * channels;
  array->rows = at_least_one(descriptor.Height);
  array->bytes = array->row_bytes * array->rows * at_least_one(descriptor.Depth);
  return CUDA_SUCCESS;
}

std::uint64_t take_array_memory(std::uint64_t bytes) {
  Device* device = current_context()->device;
  const std::uint64_t address = take_device_memory(device, bytes);
  if (address == 0) return 0;
  Allocation allocation;
  allocation.address = address;
  allocation.bytes = bytes;
  allocation.occupied_bytes = bytes;
  allocation.kind = Kind::kArray;
  allocation.context = current_context();
  allocation.device = device;
  remember(std::move(allocation));
  return address;
}

CUDA_ARRAY3D_DESCRIPTOR level_descriptor(const CUDA_ARRAY3D_DESCRIPTOR& top, unsigned int level) {
  const bool layered = (top.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = top;
  descriptor.Width = at_least_one(top.Width >> level);
  descriptor.Height = top.Height == 0 ? 0 : at_least_one(top.Height >> level);
  if (!layered && top.Depth != 0) descriptor.Depth = at_least_one(top.Depth >> level);
  return descriptor;
}

template <typename Descriptor>
CUDA_ARRAY3D_DESCRIPTOR widen_2d(const Descriptor& from) {
  return {from.Width, from.Height, 0, from.Format, from.NumChannels, 0};
}

CUDA_ARRAY3D_DESCRIPTOR widen_3d(const CUDA_ARRAY3D_DESCRIPTOR_v1& from) {
  return {from.Width, from.Height, from.Depth, from.Format, from.NumChannels, from.Flags};
}

}  // namespace

CUresult array_3d_create(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  if (array == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUarray_st layout;
  const CUresult result = lay_out(*descriptor, &layout);
  if (result != CUDA_SUCCESS) return result;
  layout.address = take_array_memory(layout.bytes);
  if (layout.address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *array = state().arrays.create();
  **array = layout;
  return CUDA_SUCCESS;
}

CUresult array_3d_create_v1(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR wide = widen_3d(*descriptor);
  return array_3d_create(array, &wide);
}

CUresult array_create(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR wide = widen_2d(*descriptor);
  return array_3d_create(array, &wide);
}

CUresult array_create_v1(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v1* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR wide = widen_2d(*descriptor);
  return array_3d_create(array, &wide);
}

CUresult array_destroy(CUarray array) {
  if (!state().arrays.has(array) || array->is_level) return CUDA_ERROR_INVALID_HANDLE;
  release_allocation(array->address);
  state().arrays.destroy(array);
  return CUDA_SUCCESS;
}

CUresult array_3d_get_descriptor(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array) {
  if (!state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  *descriptor = array->descriptor;
  return CUDA_SUCCESS;
}

CUresult array_3d_get_descriptor_v1(CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor, CUarray array) {
  if (!state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_ARRAY3D_DESCRIPTOR& from = array->descriptor;
  *descriptor = {static_cast<unsigned int>(from.Width),
                 static_cast<unsigned int>(from.Height),
                 static_cast<unsigned int>(from.Depth),
                 from.Format,
                 from.NumChannels,
                 from.Flags};
  return CUDA_SUCCESS;
}

CUresult array_get_descriptor(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray array) {
  if (!state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_ARRAY3D_DESCRIPTOR& from = array->descriptor;
  *descriptor = {from.Width, from.Height, from.Format, from.NumChannels};
  return CUDA_SUCCESS;
}

CUresult array_get_descriptor_v1(CUDA_ARRAY_DESCRIPTOR_v1* descriptor, CUarray array) {
  if (!state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_ARRAY3D_DESCRIPTOR& from = array->descriptor;
  *descriptor = {static_cast<unsigned int>(from.Width), static_cast<unsigned int>(from.Height),
                 from.Format, from.NumChannels};
  return CUDA_SUCCESS;
}

CUresult mipmapped_array_create(CUmipmappedArray* mipmapped,
                                const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned int levels) {
  if (mipmapped == nullptr || descriptor == nullptr || levels == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  State& driver = state();
  std::vector<CUarray_st> layouts(levels);
  std::uint64_t bytes = 0;
  for (unsigned int level = 0; level < levels; ++level) {
    const CUresult result = lay_out(level_descriptor(*descriptor, level), &layouts[level]);
    if (result != CUDA_SUCCESS) return result;
    layouts[level].address = bytes;
    bytes += layouts[level].bytes;
  }
  const std::uint64_t address = take_array_memory(bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *mipmapped = driver.mipmapped_arrays.create();
  (*mipmapped)->context = current_context();
  for (const CUarray_st& layout : layouts) {
    CUarray level = driver.arrays.create();
    *level = layout;
    level->address += address;
    level->is_level = true;
    (*mipmapped)->levels.push_back(level);
  }
  return CUDA_SUCCESS;
}

CUresult mipmapped_array_get_level(CUarray* array, CUmipmappedArray mipmapped, unsigned int level) {
  if (!state().mipmapped_arrays.has(mipmapped)) return CUDA_ERROR_INVALID_HANDLE;
  if (array == nullptr || level >= mipmapped->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *array = mipmapped->levels[level];
  return CUDA_SUCCESS;
}

CUresult mipmapped_array_destroy(CUmipmappedArray mipmapped) {
  State& driver = state();
  if (!driver.mipmapped_arrays.has(mipmapped)) return CUDA_ERROR_INVALID_HANDLE;
  release_allocation(mipmapped->levels.front()->address);
  for (CUarray level : mipmapped->levels) driver.arrays.destroy(level);
  driver.mipmapped_arrays.destroy(mipmapped);
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
