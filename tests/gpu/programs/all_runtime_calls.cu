// SPDX-License-Identifier: Apache-2.0
// Calls every allocation, copy and set function of the CUDA runtime that needs no graphics API
// and no second process, and keeps its own books. Built four ways: static or shared runtime,
// legacy or per-thread default stream. Output is the same in every run.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime_ledger.hpp"
#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::Direction;
using gpumemtrace::gpu_tests::RuntimeLedger;
using gpumemtrace::gpu_tests::Truth;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kSymbolBytes = 64 * kKiB;
constexpr std::size_t kElementBytes = sizeof(float);

__device__ unsigned char symbol_memory[kSymbolBytes];

// The buffers for the copies; each is kBufferBytes long.
struct Buffers {
  static constexpr std::size_t kBufferBytes = 4 * kMiB;
  std::vector<unsigned char> host = std::vector<unsigned char>(kBufferBytes, 7);
  std::vector<unsigned char> back = std::vector<unsigned char>(kBufferBytes, 0);
  void* first = nullptr;
  void* second = nullptr;
  cudaStream_t stream = nullptr;
};

void device_memory(RuntimeLedger& ledger) {
  for (std::size_t i = 1; i <= 8; ++i) {
    void* address = nullptr;
    const std::size_t bytes = i * 300 * kKiB + i;
    ledger.allocation("cudaMalloc", "device", bytes, cudaMalloc(&address, bytes));
    if (i != 4) ledger.free("cudaFree", "device", bytes, cudaFree(address));
  }
  void* too_large = nullptr;
  if (!ledger.call("cudaMalloc too large", cudaMalloc(&too_large, std::size_t{1} << 50))) {
    ledger.failed_device_allocation();
  }
  ledger.call("cudaFree(nullptr)", cudaFree(nullptr));

  void* pitched = nullptr;
  std::size_t pitch = 0;
  const cudaError_t pitch_result = cudaMallocPitch(&pitched, &pitch, 1000, 40);
  const std::size_t pitched_bytes = pitch * 40;
  if (ledger.allocation("cudaMallocPitch", "pitched", pitched_bytes, pitch_result)) {
    ledger.free("cudaFree", "pitched", pitched_bytes, cudaFree(pitched));
  }
  cudaPitchedPtr cube = {};
  const cudaError_t cube_result = cudaMalloc3D(&cube, make_cudaExtent(700, 20, 6));
  const std::size_t cube_bytes = cube.pitch * 20 * 6;
  if (ledger.allocation("cudaMalloc3D", "pitched", cube_bytes, cube_result)) {
    ledger.free("cudaFree", "pitched", cube_bytes, cudaFree(cube.ptr));
  }
}

void array_memory(RuntimeLedger& ledger) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t flat = nullptr;
  const std::size_t flat_bytes = 256 * 128 * kElementBytes;
  if (ledger.allocation("cudaMallocArray", "array", flat_bytes,
                        cudaMallocArray(&flat, &format, 256, 128))) {
    ledger.free("cudaFreeArray", "array", flat_bytes, cudaFreeArray(flat));
  }
  cudaArray_t cube = nullptr;
  const std::size_t cube_bytes = 64 * 32 * 16 * kElementBytes;
  if (ledger.allocation("cudaMalloc3DArray", "array", cube_bytes,
                        cudaMalloc3DArray(&cube, &format, make_cudaExtent(64, 32, 16)))) {
    ledger.free("cudaFreeArray", "array", cube_bytes, cudaFreeArray(cube));
  }
  cudaMipmappedArray_t levels = nullptr;
  const std::size_t level_bytes = (64 * 64 + 32 * 32 + 16 * 16) * kElementBytes;
  if (ledger.allocation(
          "cudaMallocMipmappedArray", "array", level_bytes,
          cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(64, 64, 0), 3))) {
    ledger.free("cudaFreeMipmappedArray", "array", level_bytes, cudaFreeMipmappedArray(levels));
  }
}

void host_memory(RuntimeLedger& ledger) {
  void* first = nullptr;
  ledger.allocation("cudaMallocHost", "pinned", kMiB + 3, cudaMallocHost(&first, kMiB + 3));
  void* second = nullptr;
  ledger.allocation("cudaHostAlloc", "pinned", 2 * kMiB,
                    cudaHostAlloc(&second, 2 * kMiB, cudaHostAllocMapped | cudaHostAllocPortable));
  ledger.free("cudaFreeHost", "pinned", kMiB + 3, cudaFreeHost(first));

  const std::size_t bytes = 256 * kKiB;
  void* pages = std::aligned_alloc(4096, bytes);
  if (ledger.allocation("cudaHostRegister", "registered", bytes,
                        cudaHostRegister(pages, bytes, cudaHostRegisterDefault))) {
    ledger.free("cudaHostUnregister", "registered", bytes, cudaHostUnregister(pages));
  }
  std::free(pages);
}

#if CUDART_VERSION >= 13000
void managed_ranges(RuntimeLedger& ledger, void* address, std::size_t bytes, cudaStream_t stream) {
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  device.id = 0;
  ledger.call("cudaMemAdvise",
              cudaMemAdvise(address, bytes, cudaMemAdviseSetPreferredLocation, device));
  ledger.call("cudaMemPrefetchAsync", cudaMemPrefetchAsync(address, bytes, device, 0, stream));
  void* addresses[] = {address};
  std::size_t sizes[] = {bytes};
  std::size_t indices[] = {0};
  ledger.call("cudaMemPrefetchBatchAsync",
              cudaMemPrefetchBatchAsync(addresses, sizes, 1, &device, indices, 1, 0, stream));
  ledger.call("cudaMemDiscardBatchAsync", cudaMemDiscardBatchAsync(addresses, sizes, 1, 0, stream));
  ledger.call(
      "cudaMemDiscardAndPrefetchBatchAsync",
      cudaMemDiscardAndPrefetchBatchAsync(addresses, sizes, 1, &device, indices, 1, 0, stream));
}
#endif

void managed_memory(RuntimeLedger& ledger, cudaStream_t stream) {
  void* address = nullptr;
  const std::size_t bytes = 4 * kMiB;
  if (!ledger.allocation("cudaMallocManaged", "managed", bytes,
                         cudaMallocManaged(&address, bytes))) {
    return;
  }
#if CUDART_VERSION >= 13000
  managed_ranges(ledger, address, bytes, stream);
#endif
  ledger.call("cudaStreamAttachMemAsync",
              cudaStreamAttachMemAsync(stream, address, 0, cudaMemAttachGlobal));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  ledger.free("cudaFree", "managed", bytes, cudaFree(address));
}

void own_pool(RuntimeLedger& ledger, cudaStream_t stream) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  if (!ledger.call("cudaMemPoolCreate", cudaMemPoolCreate(&pool, &properties))) return;
  std::uint64_t threshold = 64 * kMiB;
  ledger.call("cudaMemPoolSetAttribute",
              cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  void* address = nullptr;
  if (ledger.allocation("cudaMallocFromPoolAsync", "own pool", 5 * kMiB,
                        cudaMallocFromPoolAsync(&address, 5 * kMiB, pool, stream))) {
    ledger.free("cudaFreeAsync", "own pool", 5 * kMiB, cudaFreeAsync(address, stream));
  }
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  ledger.call("cudaMemPoolTrimTo", cudaMemPoolTrimTo(pool, 0));
  ledger.call("cudaMemPoolDestroy", cudaMemPoolDestroy(pool));
}

void stream_ordered_memory(RuntimeLedger& ledger, cudaStream_t stream) {
  void* on_stream = nullptr;
  void* on_default = nullptr;
  void* kept = nullptr;
  ledger.allocation("cudaMallocAsync", "default pool", 3 * kMiB,
                    cudaMallocAsync(&on_stream, 3 * kMiB, stream));
  ledger.allocation("cudaMallocAsync default stream", "default pool", kMiB,
                    cudaMallocAsync(&on_default, kMiB, nullptr));
  ledger.allocation("cudaMallocAsync kept", "default pool", 512 * kKiB,
                    cudaMallocAsync(&kept, 512 * kKiB, stream));
  ledger.free("cudaFreeAsync", "default pool", 3 * kMiB, cudaFreeAsync(on_stream, stream));
  ledger.call("cudaDeviceSynchronize", cudaDeviceSynchronize());
  ledger.free("cudaFree of a pool address", "default pool", kMiB, cudaFree(on_default));
  own_pool(ledger, stream);
}

void linear_copies(RuntimeLedger& ledger, Buffers& b) {
  const auto up = Direction::kHostToDevice;
  const auto down = Direction::kDeviceToHost;
  const auto across = Direction::kDeviceToDevice;
  ledger.copy("cudaMemcpy", up, kMiB + 1,
              cudaMemcpy(b.first, b.host.data(), kMiB + 1, cudaMemcpyHostToDevice));
  ledger.copy("cudaMemcpy", across, kMiB + 2,
              cudaMemcpy(b.second, b.first, kMiB + 2, cudaMemcpyDeviceToDevice));
  ledger.copy("cudaMemcpy", down, kMiB + 3,
              cudaMemcpy(b.back.data(), b.second, kMiB + 3, cudaMemcpyDeviceToHost));
  ledger.copy("cudaMemcpy", up, kMiB + 4,
              cudaMemcpy(b.first, b.host.data(), kMiB + 4, cudaMemcpyDefault));
  ledger.copy("cudaMemcpyAsync", up, kMiB + 5,
              cudaMemcpyAsync(b.first, b.host.data(), kMiB + 5, cudaMemcpyHostToDevice, b.stream));
  ledger.copy("cudaMemcpyAsync", across, kMiB + 6,
              cudaMemcpyAsync(b.second, b.first, kMiB + 6, cudaMemcpyDeviceToDevice, b.stream));
  ledger.copy("cudaMemcpyAsync", down, kMiB + 7,
              cudaMemcpyAsync(b.back.data(), b.second, kMiB + 7, cudaMemcpyDeviceToHost, b.stream));
  ledger.copy("cudaMemcpyPeer", across, kMiB + 8,
              cudaMemcpyPeer(b.second, 0, b.first, 0, kMiB + 8));
  ledger.copy("cudaMemcpyPeerAsync", across, kMiB + 9,
              cudaMemcpyPeerAsync(b.second, 0, b.first, 0, kMiB + 9, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));

  ledger.copy("cudaMemcpyToSymbol", up, 10001,
              cudaMemcpyToSymbol(symbol_memory, b.host.data(), 10001));
  ledger.copy("cudaMemcpyFromSymbol", down, 10002,
              cudaMemcpyFromSymbol(b.back.data(), symbol_memory, 10002));
  ledger.copy("cudaMemcpyToSymbolAsync", up, 10003,
              cudaMemcpyToSymbolAsync(symbol_memory, b.host.data(), 10003, 0,
                                      cudaMemcpyHostToDevice, b.stream));
  ledger.copy("cudaMemcpyFromSymbolAsync", down, 10004,
              cudaMemcpyFromSymbolAsync(b.back.data(), symbol_memory, 10004, 0,
                                        cudaMemcpyDeviceToHost, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));
}

void pitched_copies(RuntimeLedger& ledger, Buffers& b) {
  constexpr std::size_t kPitch = 2048;
  ledger.copy("cudaMemcpy2D", Direction::kHostToDevice, 1001 * 31,
              cudaMemcpy2D(b.first, kPitch, b.host.data(), 1001, 1001, 31, cudaMemcpyHostToDevice));
  ledger.copy("cudaMemcpy2D", Direction::kDeviceToDevice, 1002 * 32,
              cudaMemcpy2D(b.second, kPitch, b.first, kPitch, 1002, 32, cudaMemcpyDeviceToDevice));
  ledger.copy(
      "cudaMemcpy2D", Direction::kDeviceToHost, 1003 * 33,
      cudaMemcpy2D(b.back.data(), 1003, b.second, kPitch, 1003, 33, cudaMemcpyDeviceToHost));
  ledger.copy("cudaMemcpy2DAsync", Direction::kHostToDevice, 1004 * 34,
              cudaMemcpy2DAsync(b.first, kPitch, b.host.data(), 1004, 1004, 34,
                                cudaMemcpyHostToDevice, b.stream));
  ledger.copy("cudaMemcpy2DAsync", Direction::kDeviceToHost, 1005 * 35,
              cudaMemcpy2DAsync(b.back.data(), 1005, b.first, kPitch, 1005, 35,
                                cudaMemcpyDeviceToHost, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));

  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(b.host.data(), 512, 512, 16);
  box.dstPtr = make_cudaPitchedPtr(b.first, 1024, 1024, 16);
  box.extent = make_cudaExtent(501, 15, 7);
  box.kind = cudaMemcpyHostToDevice;
  ledger.copy("cudaMemcpy3D", Direction::kHostToDevice, 501 * 15 * 7, cudaMemcpy3D(&box));
  box.extent = make_cudaExtent(502, 14, 7);
  ledger.copy("cudaMemcpy3DAsync", Direction::kHostToDevice, 502 * 14 * 7,
              cudaMemcpy3DAsync(&box, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));

  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = make_cudaPitchedPtr(b.first, 1024, 1024, 16);
  peer.dstPtr = make_cudaPitchedPtr(b.second, 1024, 1024, 16);
  peer.extent = make_cudaExtent(503, 13, 7);
  ledger.copy("cudaMemcpy3DPeer", Direction::kDeviceToDevice, 503 * 13 * 7,
              cudaMemcpy3DPeer(&peer));
  peer.extent = make_cudaExtent(504, 12, 7);
  ledger.copy("cudaMemcpy3DPeerAsync", Direction::kDeviceToDevice, 504 * 12 * 7,
              cudaMemcpy3DPeerAsync(&peer, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));
}

// The functions without "2D" are deprecated but still exported.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma nv_diag_suppress 1444
void linear_array_copies(RuntimeLedger& ledger, Buffers& b, cudaArray_t first, cudaArray_t second) {
  ledger.copy("cudaMemcpyToArray", Direction::kHostToDevice, 4096,
              cudaMemcpyToArray(first, 0, 0, b.host.data(), 4096, cudaMemcpyHostToDevice));
  ledger.staged_copy(
      "cudaMemcpyArrayToArray", Direction::kDeviceToDevice, 2048,
      cudaMemcpyArrayToArray(second, 0, 0, first, 0, 0, 2048, cudaMemcpyDeviceToDevice));
  ledger.copy("cudaMemcpyFromArray", Direction::kDeviceToHost, 1024,
              cudaMemcpyFromArray(b.back.data(), second, 0, 0, 1024, cudaMemcpyDeviceToHost));
  ledger.copy(
      "cudaMemcpyToArrayAsync", Direction::kHostToDevice, 3072,
      cudaMemcpyToArrayAsync(first, 0, 0, b.host.data(), 3072, cudaMemcpyHostToDevice, b.stream));
  ledger.copy(
      "cudaMemcpyFromArrayAsync", Direction::kDeviceToHost, 4092,
      cudaMemcpyFromArrayAsync(b.back.data(), first, 0, 0, 4092, cudaMemcpyDeviceToHost, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));
}
#pragma GCC diagnostic pop

void array_copies(RuntimeLedger& ledger, Buffers& b) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  constexpr std::size_t kArrayBytes = 256 * 64 * kElementBytes;
  cudaArray_t first = nullptr;
  cudaArray_t second = nullptr;
  ledger.allocation("cudaMallocArray", "array", kArrayBytes,
                    cudaMallocArray(&first, &format, 256, 64));
  ledger.allocation("cudaMallocArray", "array", kArrayBytes,
                    cudaMallocArray(&second, &format, 256, 64));
  linear_array_copies(ledger, b, first, second);
  ledger.copy(
      "cudaMemcpy2DToArray", Direction::kHostToDevice, 400 * 20,
      cudaMemcpy2DToArray(first, 0, 0, b.host.data(), 512, 400, 20, cudaMemcpyHostToDevice));
  ledger.copy(
      "cudaMemcpy2DArrayToArray", Direction::kDeviceToDevice, 300 * 18,
      cudaMemcpy2DArrayToArray(second, 0, 0, first, 0, 0, 300, 18, cudaMemcpyDeviceToDevice));
  ledger.copy(
      "cudaMemcpy2DFromArray", Direction::kDeviceToHost, 200 * 16,
      cudaMemcpy2DFromArray(b.back.data(), 512, second, 0, 0, 200, 16, cudaMemcpyDeviceToHost));
  ledger.copy("cudaMemcpy2DToArrayAsync", Direction::kHostToDevice, 404 * 21,
              cudaMemcpy2DToArrayAsync(first, 0, 0, b.host.data(), 512, 404, 21,
                                       cudaMemcpyHostToDevice, b.stream));
  ledger.copy("cudaMemcpy2DFromArrayAsync", Direction::kDeviceToHost, 204 * 17,
              cudaMemcpy2DFromArrayAsync(b.back.data(), 512, first, 0, 0, 204, 17,
                                         cudaMemcpyDeviceToHost, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));
  ledger.free("cudaFreeArray", "array", kArrayBytes, cudaFreeArray(first));
  ledger.free("cudaFreeArray", "array", kArrayBytes, cudaFreeArray(second));
}

#if CUDART_VERSION >= 13000
void batch_copies(RuntimeLedger& ledger, Buffers& b) {
  void* destinations[] = {b.first, b.second};
  const void* sources[] = {b.host.data(), b.host.data() + kMiB};
  const std::size_t sizes[] = {20001, 20002};
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t indices[] = {0};
  const cudaError_t result =
      cudaMemcpyBatchAsync(destinations, sources, sizes, 2, &attributes, indices, 1, b.stream);
  if (ledger.call("cudaMemcpyBatchAsync of two", result)) {
    ledger.copy("cudaMemcpyBatchAsync", Direction::kHostToDevice, sizes[0], cudaSuccess);
    ledger.copy("cudaMemcpyBatchAsync", Direction::kHostToDevice, sizes[1], cudaSuccess);
  }
  cudaMemcpy3DBatchOp operation = {};
  operation.src.type = cudaMemcpyOperandTypePointer;
  operation.src.op.ptr.ptr = b.first;
  operation.dst.type = cudaMemcpyOperandTypePointer;
  operation.dst.op.ptr.ptr = b.second;
  operation.extent = make_cudaExtent(301, 11, 3);
  operation.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  ledger.copy("cudaMemcpy3DBatchAsync", Direction::kDeviceToDevice, 301 * 11 * 3,
              cudaMemcpy3DBatchAsync(1, &operation, 0, b.stream));
  ledger.call("cudaStreamSynchronize", cudaStreamSynchronize(b.stream));
}
#endif

void sets(RuntimeLedger& ledger, Buffers& b) {
  ledger.set("cudaMemset", kMiB + 11, cudaMemset(b.first, 1, kMiB + 11));
  ledger.set("cudaMemsetAsync", kMiB + 12, cudaMemsetAsync(b.first, 2, kMiB + 12, b.stream));
  ledger.set("cudaMemset2D", 901 * 41, cudaMemset2D(b.first, 1024, 3, 901, 41));
  ledger.set("cudaMemset2DAsync", 902 * 42, cudaMemset2DAsync(b.first, 1024, 4, 902, 42, b.stream));
  const cudaPitchedPtr box = make_cudaPitchedPtr(b.second, 1024, 1024, 16);
  ledger.set("cudaMemset3D", 903 * 14 * 5, cudaMemset3D(box, 5, make_cudaExtent(903, 14, 5)));
  ledger.set("cudaMemset3DAsync", 904 * 13 * 5,
             cudaMemset3DAsync(box, 6, make_cudaExtent(904, 13, 5), b.stream));
  ledger.call("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

// Work that is captured or added to a graph but never launched moves nothing and allocates nothing.
void unlaunched_graphs(RuntimeLedger& ledger, Buffers& b) {
  ledger.call("cudaStreamBeginCapture",
              cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeRelaxed));
  void* captured = nullptr;
  ledger.call("captured cudaMallocAsync", cudaMallocAsync(&captured, kMiB, b.stream));
  ledger.call("captured cudaMemsetAsync", cudaMemsetAsync(b.first, 0, kMiB, b.stream));
  ledger.call("captured cudaMemcpyAsync",
              cudaMemcpyAsync(b.second, b.first, kMiB, cudaMemcpyDeviceToDevice, b.stream));
  ledger.call("captured cudaFreeAsync", cudaFreeAsync(captured, b.stream));
  cudaGraph_t graph = nullptr;
  ledger.call("cudaStreamEndCapture", cudaStreamEndCapture(b.stream, &graph));
  ledger.call("cudaGraphDestroy", cudaGraphDestroy(graph));

  ledger.call("cudaGraphCreate", cudaGraphCreate(&graph, 0));
  cudaGraphNode_t copy_node = nullptr;
  ledger.call("cudaGraphAddMemcpyNode1D",
              cudaGraphAddMemcpyNode1D(&copy_node, graph, nullptr, 0, b.second, b.first, kMiB,
                                       cudaMemcpyDeviceToDevice));
  cudaMemsetParams set = {};
  set.dst = b.first;
  set.elementSize = 1;
  set.width = kMiB;
  set.height = 1;
  cudaGraphNode_t set_node = nullptr;
  ledger.call("cudaGraphAddMemsetNode",
              cudaGraphAddMemsetNode(&set_node, graph, &copy_node, 1, &set));
  ledger.call("cudaGraphDestroy", cudaGraphDestroy(graph));
}

// One allocation node and its free node, launched once: live while the graph runs.
void graph_memory(RuntimeLedger& ledger, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  ledger.call("cudaGraphCreate", cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams allocation = {};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location.type = cudaMemLocationTypeDevice;
  allocation.bytesize = 4 * kMiB;
  cudaGraphNode_t allocation_node = nullptr;
  cudaGraphNode_t free_node = nullptr;
  const bool added =
      ledger.call("cudaGraphAddMemAllocNode",
                  cudaGraphAddMemAllocNode(&allocation_node, graph, nullptr, 0, &allocation));
  if (added) {
    ledger.call("cudaGraphAddMemFreeNode",
                cudaGraphAddMemFreeNode(&free_node, graph, &allocation_node, 1, allocation.dptr));
    cudaGraphExec_t executable = nullptr;
    ledger.call("cudaGraphInstantiate", cudaGraphInstantiate(&executable, graph, 0));
    ledger.allocation("cudaGraphLaunch", "graph", 4 * kMiB, cudaGraphLaunch(executable, stream));
    ledger.free("cudaStreamSynchronize", "graph", 4 * kMiB, cudaStreamSynchronize(stream));
    ledger.call("cudaGraphExecDestroy", cudaGraphExecDestroy(executable));
  }
  ledger.call("cudaGraphDestroy", cudaGraphDestroy(graph));
  ledger.call("cudaDeviceGraphMemTrim", cudaDeviceGraphMemTrim(0));
}

void copies_and_sets(RuntimeLedger& ledger, Buffers& b) {
  ledger.allocation("cudaMalloc", "device", Buffers::kBufferBytes,
                    cudaMalloc(&b.first, Buffers::kBufferBytes));
  ledger.allocation("cudaMalloc", "device", Buffers::kBufferBytes,
                    cudaMalloc(&b.second, Buffers::kBufferBytes));
  ledger.set("cudaMemset", Buffers::kBufferBytes, cudaMemset(b.first, 0, Buffers::kBufferBytes));
  ledger.set("cudaMemset", Buffers::kBufferBytes, cudaMemset(b.second, 0, Buffers::kBufferBytes));
  ledger.call("cudaDeviceSynchronize", cudaDeviceSynchronize());
  linear_copies(ledger, b);
  pitched_copies(ledger, b);
  array_copies(ledger, b);
#if CUDART_VERSION >= 13000
  batch_copies(ledger, b);
#endif
  sets(ledger, b);
  unlaunched_graphs(ledger, b);
  cudaIpcMemHandle_t handle = {};
  ledger.call("cudaIpcGetMemHandle", cudaIpcGetMemHandle(&handle, b.first));
  ledger.free("cudaFree", "device", Buffers::kBufferBytes, cudaFree(b.first));
  ledger.free("cudaFree", "device", Buffers::kBufferBytes, cudaFree(b.second));
}

}  // namespace

// With --expect-joined, CUPTI records copies, too: each record must be joined to its call.
int main(int count, char** arguments) {
  const bool expects_joined = count > 1 && std::strcmp(arguments[1], "--expect-joined") == 0;
  RuntimeLedger ledger;
  if (!ledger.call("cudaSetDevice", cudaSetDevice(0))) return 1;
  Buffers buffers;
  ledger.call("cudaStreamCreate", cudaStreamCreate(&buffers.stream));
  device_memory(ledger);
  array_memory(ledger);
  host_memory(ledger);
  managed_memory(ledger, buffers.stream);
  stream_ordered_memory(ledger, buffers.stream);
  copies_and_sets(ledger, buffers);
  graph_memory(ledger, buffers.stream);
  ledger.call("cudaStreamDestroy", cudaStreamDestroy(buffers.stream));

  std::uint64_t checksum = 0;
  for (const unsigned char byte : buffers.back) checksum = checksum * 31 + byte;
  std::printf("checksum %llu\n", static_cast<unsigned long long>(checksum));

  Truth truth("all_runtime_calls");
  ledger.state(truth);
  truth.check("the trace ends by exit", "traces", 1,
              R"(,"where":{"end":"exit"},"combine":"count")");
  if (expects_joined) ledger.state_joined(truth);
  truth.write();
  return 0;
}
