// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/simulated_cuda/activity.hpp"
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/fill.hpp"
#include "tests/simulated_cuda/implementations.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

template <typename Element>
Fill row(std::uint64_t address, Element value, std::uint64_t count) {
  return {address, 0, value, sizeof(Element), count, 1};
}

template <typename Element>
Fill box(std::uint64_t address, std::uint64_t pitch, Element value, std::uint64_t width,
         std::uint64_t height) {
  return {address, pitch, value, sizeof(Element), width, height};
}

CUresult fill_in_stream(const Fill& fill, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, [fill] { return fill_now(fill); });
}

}  // namespace

CUresult fill_now(const Fill& fill) {
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  const std::uint64_t row_bytes = fill.width * fill.element_bytes;
  const std::uint64_t pitch = fill.height == 1 ? row_bytes : fill.pitch;
  if (fill.address % fill.element_bytes != 0 || pitch < row_bytes) return CUDA_ERROR_INVALID_VALUE;
  std::byte* first = resolve_device(fill.address, (fill.height - 1) * pitch + row_bytes);
  if (first == nullptr) return CUDA_ERROR_INVALID_VALUE;
  announce_set(row_bytes * fill.height, fill.value);
  for (std::uint64_t y = 0; y < fill.height; ++y) {
    std::byte* target = first + y * pitch;
    if (fill.element_bytes == 1) {
      std::memset(target, static_cast<int>(fill.value), row_bytes);
      continue;
    }
    for (std::uint64_t x = 0; x < row_bytes; x += fill.element_bytes) {
      std::memcpy(target + x, &fill.value, fill.element_bytes);  // needs little endian
    }
  }
  return CUDA_SUCCESS;
}

CUresult set_d8(CUdeviceptr address, unsigned char value, std::size_t count) {
  return fill_now(row(address, value, count));
}

CUresult set_d16(CUdeviceptr address, unsigned short value, std::size_t count) {
  return fill_now(row(address, value, count));
}

CUresult set_d32(CUdeviceptr address, unsigned int value, std::size_t count) {
  return fill_now(row(address, value, count));
}

CUresult set_2d_d8(CUdeviceptr address, std::size_t pitch, unsigned char value, std::size_t width,
                   std::size_t height) {
  return fill_now(box(address, pitch, value, width, height));
}

CUresult set_2d_d16(CUdeviceptr address, std::size_t pitch, unsigned short value, std::size_t width,
                    std::size_t height) {
  return fill_now(box(address, pitch, value, width, height));
}

CUresult set_2d_d32(CUdeviceptr address, std::size_t pitch, unsigned int value, std::size_t width,
                    std::size_t height) {
  return fill_now(box(address, pitch, value, width, height));
}

CUresult set_d8_async(CUdeviceptr address, unsigned char value, std::size_t count,
                      CUstream stream) {
  return fill_in_stream(row(address, value, count), stream);
}

CUresult set_d16_async(CUdeviceptr address, unsigned short value, std::size_t count,
                       CUstream stream) {
  return fill_in_stream(row(address, value, count), stream);
}

CUresult set_d32_async(CUdeviceptr address, unsigned int value, std::size_t count,
                       CUstream stream) {
  return fill_in_stream(row(address, value, count), stream);
}

CUresult set_2d_d8_async(CUdeviceptr address, std::size_t pitch, unsigned char value,
                         std::size_t width, std::size_t height, CUstream stream) {
  return fill_in_stream(box(address, pitch, value, width, height), stream);
}

CUresult set_2d_d16_async(CUdeviceptr address, std::size_t pitch, unsigned short value,
                          std::size_t width, std::size_t height, CUstream stream) {
  return fill_in_stream(box(address, pitch, value, width, height), stream);
}

CUresult set_2d_d32_async(CUdeviceptr address, std::size_t pitch, unsigned int value,
                          std::size_t width, std::size_t height, CUstream stream) {
  return fill_in_stream(box(address, pitch, value, width, height), stream);
}

CUresult stream_write_value_32(CUstream stream, CUdeviceptr address, std::uint32_t value,
                               unsigned int) {
  return fill_in_stream(row(address, value, 1), stream);
}

CUresult stream_write_value_64(CUstream stream, CUdeviceptr address, std::uint64_t value,
                               unsigned int) {
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [address, value]() -> CUresult {
    std::byte* target = resolve_device(address, sizeof value);
    if (target == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(target, &value, sizeof value);
    return CUDA_SUCCESS;
  });
}

}  // namespace gpumemtrace::cuda_abi::simulated
