// SPDX-License-Identifier: Apache-2.0
// A program with a profiler of its own that opens libcupti long after CUDA was initialised, as
// profilers do that are plugins. It prints the profiler's records: they must be the same whether or
// not a recorder collects records in the process. The recorder gets the copies since the profiler's
// first call.

#include <cuda_runtime.h>
#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::Truth;

constexpr int kCopiesBefore = 30;
constexpr int kCopiesInside = 50;
constexpr int kCopiesAfter = 70;
constexpr std::size_t kCopyBytes = 64 << 10;
constexpr std::size_t kBufferBytes = 1 << 20;

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(result));
  std::exit(1);
}

void* library = nullptr;

template <class Function>
Function* function(const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "libcupti has no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}
#define CUPTI_CALL(name, ...)                                                \
  do {                                                                       \
    const CUptiResult result = function<decltype(name)>(#name)(__VA_ARGS__); \
    if (result != CUPTI_SUCCESS) {                                           \
      std::fprintf(stderr, "%s: %d\n", #name, result);                       \
      std::exit(1);                                                          \
    }                                                                        \
  } while (false)

std::atomic<int> copies{0};
std::atomic<int> calls_of_copies{0};
std::atomic<int> other_calls{0};

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *most_records = 0;
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  static auto* const next =
      function<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  CUpti_Activity* record = nullptr;
  while (valid != 0 && next(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) ++copies;
    if (record->kind != CUPTI_ACTIVITY_KIND_RUNTIME) continue;
    const auto* const call = reinterpret_cast<CUpti_ActivityAPI*>(record);
    const bool copies_memory = call->cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020;
    ++(copies_memory ? calls_of_copies : other_calls);
  }
  std::free(buffer);
}

void open_library() {
  const std::string name = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);
  library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
}

class Program {
 public:
  Program() {
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    check(cudaMalloc(&device_, kCopyBytes), "cudaMalloc");
    check(cudaMallocHost(&pinned_, kCopyBytes), "cudaMallocHost");
  }
  void copy(int count) {
    for (int i = 0; i < count; ++i) {
      check(cudaMemcpyAsync(device_, pinned_, kCopyBytes, cudaMemcpyHostToDevice, stream_),
            "cudaMemcpyAsync");
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
};

void profile(Program& program) {
  CUPTI_CALL(cuptiActivityRegisterCallbacks, give_buffer, take_buffer);
  CUPTI_CALL(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_MEMCPY);
  CUPTI_CALL(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_RUNTIME);
  program.copy(kCopiesInside);
  CUPTI_CALL(cuptiActivityFlushAll, 0);
  CUPTI_CALL(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_MEMCPY);
  CUPTI_CALL(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_RUNTIME);
}

}  // namespace

int main() {
  Program program;
  program.copy(kCopiesBefore);
  open_library();
  profile(program);
  program.copy(kCopiesAfter);
  profile(program);
  std::printf("copies %d, their calls %d, others %d\n", copies.load(), calls_of_copies.load(),
              other_calls.load());
  constexpr int kSeen = 2 * kCopiesInside + kCopiesAfter;
  Truth truth("cupti_late");
  const std::string up = R"(,"where":{"direction":"host_to_device"},"field":")";
  truth.check("copies", "transfers.by_kind", kCopiesBefore + kSeen, up + "count\"");
  truth.check("copies with a record", "transfers.by_kind", kSeen, up + "joined_count\"");
  truth.check("joined exactly", "processes", kSeen, R"(,"field":"cupti.join.joined_exact")");
  truth.check("nothing unjoined", "transfers", 0, R"(,"field":"unjoined")");
  truth.write();
  return 0;
}
