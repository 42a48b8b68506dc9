// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>

#include "tests/programs/support/copies.hpp"
#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kPieces = 3;
constexpr std::size_t kPieceBytes = 512;

struct Batch {
  abi::CUdeviceptr destinations[kPieces];
  abi::CUdeviceptr sources[kPieces];
  std::size_t sizes[kPieces];
  abi::CUmemcpyAttributes attributes;
  std::size_t first_index = 0;
  abi::CUDA_MEMCPY3D_BATCH_OP boxes[kPieces];
};

Batch make_batch(abi::CUdeviceptr destination, abi::CUdeviceptr source) {
  Batch batch{};
  batch.attributes.srcAccessOrder = abi::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    batch.destinations[piece] = destination + piece * 1024;
    batch.sources[piece] = source + piece * 1024;
    batch.sizes[piece] = kPieceBytes;
    abi::CUDA_MEMCPY3D_BATCH_OP& box = batch.boxes[piece];
    box.src.type = abi::CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = batch.sources[piece];
    box.src.op.ptr.locHint = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
    box.dst.type = abi::CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.dst.op.ptr.ptr = batch.destinations[piece];
    box.dst.op.ptr.locHint = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
    box.extent = {kPieceBytes, 1, 1};
    box.srcAccessOrder = abi::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  return batch;
}

void count_pieces() {
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    truth().copied("device_to_device", kPieceBytes);
  }
}

// Counts a call of a batch function, which an older driver may refuse.
void count_batch(const char* symbol, abi::CUresult result) {
  if (result == abi::CUDA_ERROR_NOT_SUPPORTED) {
    skip_part(std::string(symbol) + " is not supported");
    return;
  }
  require_success(symbol, result);
  count_pieces();
}

#define GPUMEMTRACE_BATCH(symbol, ...)                          \
  if (has_symbol(#symbol)) {                                    \
    count_batch(#symbol, GPUMEMTRACE_TRY(symbol, __VA_ARGS__)); \
  } else {                                                      \
    skip_part(#symbol " is not exported");                      \
  }

}  // namespace

void copy_batches(abi::CUdeviceptr destination, abi::CUdeviceptr source, abi::CUstream stream) {
  Batch use = make_batch(destination, source);
  std::size_t failed = 0;
  GPUMEMTRACE_BATCH(cuMemcpyBatchAsync, use.destinations, use.sources, use.sizes, kPieces,
                    &use.attributes, &use.first_index, 1, &failed, stream);
  GPUMEMTRACE_BATCH(cuMemcpyBatchAsync_ptsz, use.destinations, use.sources, use.sizes, kPieces,
                    &use.attributes, &use.first_index, 1, &failed, stream);
  GPUMEMTRACE_BATCH(cuMemcpyBatchAsync_v2, use.destinations, use.sources, use.sizes, kPieces,
                    &use.attributes, &use.first_index, 1, stream);
  GPUMEMTRACE_BATCH(cuMemcpyBatchAsync_v2_ptsz, use.destinations, use.sources, use.sizes, kPieces,
                    &use.attributes, &use.first_index, 1, stream);
  GPUMEMTRACE_BATCH(cuMemcpy3DBatchAsync, kPieces, use.boxes, &failed, 0, stream);
  GPUMEMTRACE_BATCH(cuMemcpy3DBatchAsync_ptsz, kPieces, use.boxes, &failed, 0, stream);
  GPUMEMTRACE_BATCH(cuMemcpy3DBatchAsync_v2, kPieces, use.boxes, 0, stream);
  GPUMEMTRACE_BATCH(cuMemcpy3DBatchAsync_v2_ptsz, kPieces, use.boxes, 0, stream);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
}

}  // namespace gpumemtrace::programs
