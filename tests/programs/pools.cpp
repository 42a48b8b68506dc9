// SPDX-License-Identifier: Apache-2.0
// Uses stream-ordered memory: the device's default pool, an explicit pool, the current pool, both
// functions that free, trimming, attributes, and a thread without a context.
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

struct Piece {
  abi::CUdeviceptr address;
  std::size_t bytes;
};

Piece allocate(std::size_t bytes, abi::CUstream stream) {
  Piece piece{0, bytes};
  GPUMEMTRACE_CALL(cuMemAllocAsync, &piece.address, bytes, stream);
  truth().allocated("pool", "stream_ordered", bytes);
  return piece;
}

Piece allocate_from(abi::CUmemoryPool pool, std::size_t bytes, abi::CUstream stream) {
  Piece piece{0, bytes};
  GPUMEMTRACE_CALL(cuMemAllocFromPoolAsync, &piece.address, bytes, pool, stream);
  truth().allocated("pool", "stream_ordered", bytes);
  return piece;
}

void free_in_order(const Piece& piece, abi::CUstream stream) {
  GPUMEMTRACE_CALL(cuMemFreeAsync, piece.address, stream);
  truth().freed("pool", "stream_ordered", piece.bytes);
}

std::uint64_t attribute(abi::CUmemoryPool pool, abi::CUmemPool_attribute which) {
  std::uint64_t value = 0;
  GPUMEMTRACE_CALL(cuMemPoolGetAttribute, pool, which, &value);
  return value;
}

abi::CUmemoryPool create_pool() {
  abi::CUmemPoolProps properties{};
  properties.allocType = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  abi::CUmemoryPool pool = nullptr;
  GPUMEMTRACE_CALL(cuMemPoolCreate, &pool, &properties);
  return pool;
}

void use_explicit_pool(abi::CUstream stream) {
  abi::CUmemoryPool pool = create_pool();
  std::uint64_t keep_bytes = UINT64_MAX;
  GPUMEMTRACE_CALL(cuMemPoolSetAttribute, pool, abi::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                   &keep_bytes);
  const Piece first = allocate_from(pool, 3 * kMegabyte, stream);
  const Piece second = allocate_from(pool, 5 * kMegabyte, stream);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  require(attribute(pool, abi::CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 8 * kMegabyte,
          "the pool counts what is used");
  free_in_order(first, stream);
  free_in_order(second, stream);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  require(attribute(pool, abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 8 * kMegabyte,
          "the pool keeps freed memory below its release threshold");
  GPUMEMTRACE_CALL(cuMemPoolTrimTo, pool, 0);
  require(attribute(pool, abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0,
          "trimming gives all free memory back");

  GPUMEMTRACE_CALL(cuDeviceSetMemPool, 0, pool);
  free_in_order(allocate(kMegabyte, stream), stream);
  abi::CUmemoryPool default_pool = nullptr;
  GPUMEMTRACE_CALL(cuDeviceGetDefaultMemPool, &default_pool, 0);
  GPUMEMTRACE_CALL(cuDeviceSetMemPool, 0, default_pool);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  GPUMEMTRACE_CALL(cuMemPoolDestroy, pool);
}

// The stream belongs to a context, but the allocating thread has no current context.
void allocate_without_a_current_context(abi::CUstream stream) {
  std::thread([stream] { free_in_order(allocate(7 * kMegabyte, stream), stream); }).join();
}

int run() {
  start_on_device();
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0) {
    skip_program("the device has no memory pools");
  }
  abi::CUstream stream = nullptr;
  GPUMEMTRACE_CALL(cuStreamCreate, &stream, abi::CU_STREAM_NON_BLOCKING);
  std::vector<Piece> pieces;
  for (std::size_t index = 1; index <= 20; ++index) {
    pieces.push_back(allocate(index * 100000, stream));
  }
  for (const Piece& piece : pieces) free_in_order(piece, stream);
  const Piece freed_at_once = allocate(kMegabyte, nullptr);
  GPUMEMTRACE_CALL(cuMemFree_v2, freed_at_once.address);
  truth().freed("pool", "stream_ordered", freed_at_once.bytes);
  use_explicit_pool(stream);
  allocate_without_a_current_context(stream);
  allocate(kMegabyte + 1, stream);  // leaked on purpose
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  GPUMEMTRACE_CALL(cuStreamDestroy_v2, stream);
  return finish("pools");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
