// SPDX-License-Identifier: Apache-2.0
// Small jobs in C++ that hold their peak use of GPU memory for a while, as python_jobs.py does.
//
// usage: compiled_jobs NAME
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kHoldMs = 150;
constexpr int kShortHoldMs = 30;

void check(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: %d\n", what, result);
  std::exit(1);
}
#define CHECK(call) check(static_cast<int>(call), #call)

void hold(int milliseconds = kHoldMs) {
  CHECK(cudaDeviceSynchronize());
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void* allocate(std::size_t bytes) {
  void* block = nullptr;
  CHECK(cudaMalloc(&block, bytes));
  return block;
}

__global__ void touch(char* bytes, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
    bytes[at] = 1;
}

// A kernel that needs local memory: its array is indexed by a value unknown to the compiler.
__global__ void use_local_memory(int* out, int stride) {
  int values[4096];
  for (int i = 0; i < 4096; ++i) values[(i * stride) & 4095] = i * stride;
  int sum = 0;
  for (int i = 0; i < 4096; ++i) sum += values[(i * 7 + stride) & 4095];
  out[threadIdx.x] = sum;
}

// Sizes that the driver rounds up, many of them small.
void many_small() {
  std::vector<void*> blocks;
  for (int i = 0; i < 20000; ++i) blocks.push_back(allocate(500 + 37 * (i % 900)));
  hold();
  for (std::size_t i = 0; i < blocks.size(); i += 2) CHECK(cudaFree(blocks[i]));
  hold();
}

void odd_sizes() {
  for (int i = 1; i <= 200; ++i)
    allocate((std::size_t{1} << 20) + 70001 * static_cast<std::size_t>(i));
  hold();
}

void rises_and_falls() {
  for (const std::size_t gib : {1, 4, 2, 7, 3}) {
    void* const block = allocate(gib << 30);
    hold();
    CHECK(cudaFree(block));
  }
}

void local_memory() {
  int* const out = static_cast<int*>(allocate(4096));
  hold();
  use_local_memory<<<1, 64>>>(out, 3);
  hold();
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 32 << 10));
  use_local_memory<<<1, 64>>>(out, 5);
  hold();
}

void heap_limit() {
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, std::size_t{512} << 20));
  touch<<<1, 32>>>(static_cast<char*>(allocate(1024)), 1024);
  hold();
}

void graphs() {
  char* const block = static_cast<char*>(allocate(64 << 20));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int i = 0; i < 400; ++i) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int node = 0; node < 64; ++node) touch<<<4, 128, 0, stream>>>(block, 1 << 16);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
  }
  hold();
}

void stream_ordered() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  std::vector<void*> blocks(12);
  for (void*& block : blocks) CHECK(cudaMallocAsync(&block, 150 << 20, stream));
  hold();
  for (void* block : blocks) CHECK(cudaFreeAsync(block, stream));
  hold();
}

void managed() {
  char* block = nullptr;
  CHECK(cudaMallocManaged(&block, std::size_t{1} << 30));
  hold();
  touch<<<256, 256>>>(block, std::size_t{1} << 30);
  hold();
  CHECK(cudaFree(block));
  hold();
}

void virtual_memory() {
  CHECK(cudaFree(nullptr));
  CUmemAllocationProp kind = {};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  for (int i = 0; i < 40; ++i) {
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, std::size_t{32} << 20, &kind, 0));
  }
  hold();
}

void pitched_and_arrays() {
  for (int i = 0; i < 20; ++i) {
    void* block = nullptr;
    std::size_t pitch = 0;
    CHECK(cudaMallocPitch(&block, &pitch, 1000 + 13 * i, 3000));
    cudaArray_t array;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, 1900 + i, 1030));
  }
  hold();
}

void short_allocations() {
  touch<<<1, 32>>>(static_cast<char*>(allocate(100 << 20)), 1 << 20);
  hold(kShortHoldMs);
}

void short_context() {
  CHECK(cudaFree(nullptr));
  hold(kShortHoldMs);
}

const std::map<std::string, std::function<void()>> kJobs = {
    {"many_small", many_small},
    {"odd_sizes", odd_sizes},
    {"rises_and_falls", rises_and_falls},
    {"local_memory", local_memory},
    {"heap_limit", heap_limit},
    {"graphs", graphs},
    {"stream_ordered", stream_ordered},
    {"managed", managed},
    {"virtual_memory", virtual_memory},
    {"pitched_and_arrays", pitched_and_arrays},
    {"short_allocations", short_allocations},
    {"short_context", short_context},
};

}  // namespace

int main(int count, char** arguments) {
  const auto job = count == 2 ? kJobs.find(arguments[1]) : kJobs.end();
  if (job == kJobs.end()) {
    std::fprintf(stderr, "usage: compiled_jobs NAME\n");
    return 2;
  }
  job->second();
}
