// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/box_copy.hpp"

#include <cstring>

#include "tests/simulated_cuda/activity.hpp"
#include "tests/simulated_cuda/capture.hpp"
#include "tests/simulated_cuda/implementations.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

// The source or the destination of a copy, resolved to host memory: the first row, and the byte
// steps to the next row and the next slice.
struct Rows {
  std::byte* first = nullptr;
  std::uint64_t address = 0;
  std::uint64_t row_step = 0;
  std::uint64_t slice_step = 0;
};

Rows find_rows(const BoxSide& side, const BoxCopy& box) {
  std::uint64_t address = side.address;
  std::uint64_t row_step = side.pitch == 0 ? box.width_bytes + side.x_bytes : side.pitch;
  std::uint64_t rows = side.height == 0 ? box.height + side.y : side.height;
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    if (!state().arrays.has(side.array)) return {};
    address = side.array->address;
    row_step = side.array->row_bytes;
    rows = side.array->rows;
  }
  if (side.x_bytes + box.width_bytes > row_step && box.height * box.depth > 1) return {};
  const std::uint64_t slice_step = row_step * rows;
  const std::uint64_t first = side.x_bytes + side.y * row_step + side.z * slice_step;
  const std::uint64_t span =
      (box.depth - 1) * slice_step + (box.height - 1) * row_step + box.width_bytes;
  const bool must_be_device = side.type == CU_MEMORYTYPE_DEVICE || side.type == CU_MEMORYTYPE_ARRAY;
  std::byte* found =
      must_be_device ? resolve_device(address + first, span) : resolve(address + first, span);
  return {found, address + first, row_step, slice_step};
}

BoxSide side_of(const CUmemcpy3DOperand& operand) {
  BoxSide side;
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    side.type = CU_MEMORYTYPE_ARRAY;
    side.array = operand.op.array.array;
    side.x_bytes = operand.op.array.offset.x;
    side.y = operand.op.array.offset.y;
    side.z = operand.op.array.offset.z;
    return side;
  }
  side.type = CU_MEMORYTYPE_UNIFIED;
  side.address = operand.op.ptr.ptr;
  side.pitch = operand.op.ptr.rowLength;
  side.height = operand.op.ptr.layerHeight;
  return side;
}

template <typename Box>
CUresult copy_in_stream(const Box& box, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [box] { return copy_box(box); });
}

}  // namespace

CUresult copy_box(const BoxCopy& box) {
  if (box.width_bytes == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  const Rows source = find_rows(box.source, box);
  const Rows destination = find_rows(box.destination, box);
  if (source.first == nullptr || destination.first == nullptr) return CUDA_ERROR_INVALID_VALUE;
  announce_copy(box.width_bytes * box.height * box.depth, source.address, destination.address);
  for (std::uint64_t z = 0; z < box.depth; ++z) {
    for (std::uint64_t y = 0; y < box.height; ++y) {
      std::memmove(destination.first + z * destination.slice_step + y * destination.row_step,
                   source.first + z * source.slice_step + y * source.row_step, box.width_bytes);
    }
  }
  return CUDA_SUCCESS;
}

BoxCopy box_of(const CUDA_MEMCPY3D_BATCH_OP& operation) {
  BoxCopy box;
  box.source = side_of(operation.src);
  box.destination = side_of(operation.dst);
  box.width_bytes = operation.extent.width;
  box.height = operation.extent.height;
  box.depth = operation.extent.depth;
  return box;
}

CUresult copy_2d(const CUDA_MEMCPY2D* parameters) {
  return parameters == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_box(box_of_2d(*parameters));
}

CUresult copy_2d_v1(const CUDA_MEMCPY2D_v1* parameters) {
  return parameters == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_box(box_of_2d(*parameters));
}

CUresult copy_2d_async(const CUDA_MEMCPY2D* parameters, CUstream stream) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_in_stream(box_of_2d(*parameters), stream);
}

CUresult copy_2d_async_v1(const CUDA_MEMCPY2D_v1* parameters, CUstream stream) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_in_stream(box_of_2d(*parameters), stream);
}

CUresult copy_3d(const CUDA_MEMCPY3D* parameters) {
  return parameters == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_box(box_of_3d(*parameters));
}

CUresult copy_3d_v1(const CUDA_MEMCPY3D_v1* parameters) {
  return parameters == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_box(box_of_3d(*parameters));
}

CUresult copy_3d_async(const CUDA_MEMCPY3D* parameters, CUstream stream) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_in_stream(box_of_3d(*parameters), stream);
}

CUresult copy_3d_async_v1(const CUDA_MEMCPY3D_v1* parameters, CUstream stream) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_in_stream(box_of_3d(*parameters), stream);
}

CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER* parameters) {
  return parameters == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_box(box_of_3d(*parameters));
}

CUresult copy_3d_peer_async(const CUDA_MEMCPY3D_PEER* parameters, CUstream stream) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_in_stream(box_of_3d(*parameters), stream);
}

}  // namespace gpumemtrace::cuda_abi::simulated
