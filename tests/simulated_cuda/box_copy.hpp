// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/simulated_cuda/state.hpp"

// Copies of rows and boxes: every parameter structure of the driver becomes one BoxCopy.

namespace gpumemtrace::cuda_abi::simulated {

struct BoxSide {
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  std::uint64_t address = 0;
  CUarray array = nullptr;
  std::uint64_t x_bytes = 0;
  std::uint64_t y = 0;
  std::uint64_t z = 0;
  std::uint64_t pitch = 0;
  std::uint64_t height = 0;
};

struct BoxCopy {
  BoxSide source;
  BoxSide destination;
  std::uint64_t width_bytes = 0;
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
};

CUresult copy_box(const BoxCopy& box);

BoxCopy box_of(const CUDA_MEMCPY3D_BATCH_OP& operation);

// Makes a BoxCopy of a CUDA_MEMCPY2D or of its 32-bit form.
template <typename Parameters>
BoxCopy box_of_2d(const Parameters& from) {
  const auto side = [](CUmemorytype type, const void* host, std::uint64_t device, CUarray array) {
    BoxSide made;
    made.type = type;
    made.address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
    made.array = array;
    return made;
  };
  BoxCopy box;
  box.source = side(from.srcMemoryType, from.srcHost, from.srcDevice, from.srcArray);
  box.source.x_bytes = from.srcXInBytes;
  box.source.y = from.srcY;
  box.source.pitch = from.srcPitch;
  box.destination = side(from.dstMemoryType, from.dstHost, from.dstDevice, from.dstArray);
  box.destination.x_bytes = from.dstXInBytes;
  box.destination.y = from.dstY;
  box.destination.pitch = from.dstPitch;
  box.width_bytes = from.WidthInBytes;
  box.height = from.Height;
  return box;
}

// Makes a BoxCopy of a CUDA_MEMCPY3D, of its 32-bit form or of a CUDA_MEMCPY3D_PEER.
template <typename Parameters>
BoxCopy box_of_3d(const Parameters& from) {
  BoxCopy box = box_of_2d(from);
  box.source.z = from.srcZ;
  box.source.height = from.srcHeight;
  box.destination.z = from.dstZ;
  box.destination.height = from.dstHeight;
  box.depth = from.Depth;
  return box;
}

}  // namespace gpumemtrace::cuda_abi::simulated
