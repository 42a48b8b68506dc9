// SPDX-License-Identifier: Apache-2.0
// The cost of calls: the median of many bursts of a few calls each, in microseconds a call. Linked
// with libcupti, so that a recorder which is asked to collect finds it. ../cupti_cost.py runs it
// without a recorder and with one in each mode, and compares.
//
// Prints one line per figure: NAME VALUE. Other figures are the time of the first cuInit, and the
// bytes of device memory that the first kernel, copy and set took.

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kBursts = 300;
constexpr int kCallsPerBurst = 20;
constexpr int kWarmUpBursts = 20;
constexpr std::size_t kCopyBytes = 4096;
constexpr std::size_t kSmallBytes = 64;
constexpr std::size_t kAllocatedBytes = std::size_t{2} << 20;

using Clock = std::chrono::steady_clock;

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(result));
  std::exit(1);
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

__global__ void nothing() {}

class Program {
 public:
  Program() {
    const Clock::time_point start = Clock::now();
    if (cuInit(0) != CUDA_SUCCESS) {
      std::fprintf(stderr, "cuInit failed; this program needs a GPU\n");
      std::exit(1);
    }
    std::printf("init_us %.1f\n", microseconds_since(start));
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    check(cudaMalloc(&device_, kCopyBytes), "cudaMalloc");
    check(cudaMallocHost(&pinned_, kCopyBytes), "cudaMallocHost");
    cudaFuncAttributes loaded;  // modules are loaded at their first use
    check(cudaFuncGetAttributes(&loaded, nothing), "cudaFuncGetAttributes");
  }

  void launch() { nothing<<<1, 1, 0, stream_>>>(); }
  void copy_pinned() {
    check(cudaMemcpyAsync(device_, pinned_, kCopyBytes, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
  }
  void copy_small() {
    check(cudaMemcpy(pageable_, device_, kSmallBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }
  void set() { check(cudaMemsetAsync(device_, 1, kCopyBytes, stream_), "cudaMemsetAsync"); }
  void allocate_from_pool() {
    void* address = nullptr;
    check(cudaMallocAsync(&address, kAllocatedBytes, stream_), "cudaMallocAsync");
    check(cudaFreeAsync(address, stream_), "cudaFreeAsync");
  }
  void allocate() {
    void* address = nullptr;
    check(cudaMalloc(&address, kAllocatedBytes), "cudaMalloc");
    check(cudaFree(address), "cudaFree");
  }
  void ask() {
    const cudaError_t result = cudaStreamQuery(stream_);
    if (result != cudaErrorNotReady) check(result, "cudaStreamQuery");
  }
  void wait() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  // After this work CUPTI has allocated all that it needs on the device to observe such work.
  void measure_device_memory() {
    const std::size_t before = free_bytes();
    launch();
    copy_pinned();
    set();
    wait();
    std::printf("device_memory_bytes %lld\n",
                static_cast<long long>(before) - static_cast<long long>(free_bytes()));
  }

 private:
  static std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  char pageable_[kSmallBytes] = {};
};

void measure(Program& program, const char* name, void (Program::*call)()) {
  std::vector<double> bursts;
  for (int burst = 0; burst < kWarmUpBursts + kBursts; ++burst) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kCallsPerBurst; ++i) (program.*call)();
    const double taken = microseconds_since(start);
    program.wait();
    if (burst >= kWarmUpBursts) bursts.push_back(taken / kCallsPerBurst);
  }
  std::nth_element(bursts.begin(), bursts.begin() + kBursts / 2, bursts.end());
  std::printf("%s %.3f\n", name, bursts[kBursts / 2]);
}

}  // namespace

int main() {
  Program program;
  program.measure_device_memory();
  measure(program, "launch_us", &Program::launch);
  measure(program, "copy_pinned_us", &Program::copy_pinned);
  measure(program, "copy_small_us", &Program::copy_small);
  measure(program, "set_us", &Program::set);
  measure(program, "allocate_from_pool_us", &Program::allocate_from_pool);
  measure(program, "allocate_us", &Program::allocate);
  measure(program, "ask_us", &Program::ask);
  return 0;
}
