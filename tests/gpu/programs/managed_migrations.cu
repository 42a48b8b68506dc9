// SPDX-License-Identifier: Apache-2.0
// Managed memory of which the program knows how many bytes must move, there and back: moved by
// page faults, moved by prefetches, and never moved. Linked with libcupti, so that a collector
// finds it loaded. Output is the same in every run.
//
// Why the bytes are known: a page lies in one place at a time. A pass touches every page, or
// prefetches the whole range, to the side where no page of it is; each then moves once. Passes take
// milliseconds, so that the driver has no reason to see pages that thrash. The driver chooses how
// many pages it moves at a time; see `managed_blocks` in compare.py.
//
// With heterogeneous memory management (HMM) memory of malloc that a kernel touches moves, too, and
// would stand in the report's row of unknown memory; this program's kernels touch none.
// If the device cannot fault (no concurrent managed access), or reads the host's page tables
// (64-bit Arm with NVLink), nothing of this is promised: then only the row of unknown memory is
// checked.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::Truth;

// Different sizes: a row of the report is found by the bytes of its allocation.
constexpr std::size_t kFaultedBytes = std::size_t{64} << 20;
constexpr std::size_t kPrefetchedBytes = std::size_t{96} << 20;
constexpr std::size_t kDeviceOnlyBytes = std::size_t{16} << 20;
constexpr int kFaultedRounds = 3;
constexpr int kPrefetchedRounds = 2;
constexpr std::size_t kPageBytes = 4096;  // the smallest page size of any host
constexpr unsigned kThreads = 256;

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(result));
  std::exit(1);
}

__global__ void touch_pages(unsigned char* memory, std::size_t pages) {
  const std::size_t page = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (page < pages) ++memory[page * kPageBytes];
}

void touch_on_device(unsigned char* memory, std::size_t bytes) {
  const std::size_t pages = bytes / kPageBytes;
  touch_pages<<<static_cast<unsigned>((pages + kThreads - 1) / kThreads), kThreads>>>(memory,
                                                                                      pages);
  check(cudaDeviceSynchronize(), "touch_pages");
}

void touch_on_host(unsigned char* memory, std::size_t bytes) {
  auto* const pages = static_cast<volatile unsigned char*>(memory);
  for (std::size_t at = 0; at < bytes; at += kPageBytes) {
    pages[at] = static_cast<unsigned char>(pages[at] + 1);
  }
}

void prefetch(void* memory, std::size_t bytes, bool to_device) {
#if CUDART_VERSION >= 13000
  const cudaMemLocation place = {to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost,
                                 0};
  check(cudaMemPrefetchAsync(memory, bytes, place, 0, nullptr), "cudaMemPrefetchAsync");
#else
  const int place = to_device ? 0 : cudaCpuDeviceId;
  check(cudaMemPrefetchAsync(memory, bytes, place, nullptr), "cudaMemPrefetchAsync");
#endif
  check(cudaDeviceSynchronize(), "prefetch");
}

// Each allocation has a line of its own, which is what the report tells them apart by.
unsigned char* move_by_faults() {
  unsigned char* memory = nullptr;
  check(cudaMallocManaged(&memory, kFaultedBytes), "cudaMallocManaged");
  touch_on_host(memory, kFaultedBytes);
  for (int round = 0; round < kFaultedRounds; ++round) {
    touch_on_device(memory, kFaultedBytes);
    touch_on_host(memory, kFaultedBytes);
  }
  return memory;
}

unsigned char* move_by_prefetches() {
  unsigned char* memory = nullptr;
  check(cudaMallocManaged(&memory, kPrefetchedBytes), "cudaMallocManaged");
  touch_on_host(memory, kPrefetchedBytes);
  for (int round = 0; round < kPrefetchedRounds; ++round) {
    prefetch(memory, kPrefetchedBytes, true);
    prefetch(memory, kPrefetchedBytes, false);
  }
  return memory;
}

unsigned char* stay_on_device() {
  unsigned char* memory = nullptr;
  check(cudaMallocManaged(&memory, kDeviceOnlyBytes), "cudaMallocManaged");
  touch_on_device(memory, kDeviceOnlyBytes);
  return memory;
}

bool has_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, 0), "cudaDeviceGetAttribute");
  return value != 0;
}

class Statement {
 public:
  Statement(Truth& truth, const char* how, std::size_t bytes)
      : truth_(truth),
        how_(how),
        where_(R"(,"where":{"allocations":1,"bytes":)" + std::to_string(bytes) + "}") {}

  // `passes`: in each pass the driver may move one block more or less than `bytes` says.
  void moved(const char* field, std::uint64_t bytes, int passes) {
    const std::string allowance =
        R"(,"allow":[{"reason":"managed_blocks","units":)" + std::to_string(passes) + "}]";
    state(field, bytes, passes == 0 ? "" : allowance);
  }
  void at_least(const char* field, std::uint64_t value) {
    state(field, value, R"(,"relation":"at_least")");
  }
  void exactly(const char* field, std::uint64_t value) { state(field, value, ""); }

 private:
  void state(const char* field, std::uint64_t value, const std::string& more) {
    truth_.check(how_ + ", " + field, "managed", value,
                 where_ + R"(,"field":")" + field + "\"" + more);
  }

  Truth& truth_;
  std::string how_;
  std::string where_;
};

void state_migrations(Truth& truth) {
  Statement faulted(truth, "moved by faults", kFaultedBytes);
  faulted.moved("to_device_bytes", kFaultedRounds * kFaultedBytes, kFaultedRounds);
  faulted.moved("to_host_bytes", kFaultedRounds * kFaultedBytes, kFaultedRounds);
  faulted.at_least("gpu_faults", kFaultedRounds);
  faulted.at_least("cpu_faults", kFaultedRounds);
  faulted.at_least("migrations", 2 * kFaultedRounds);
  Statement prefetched(truth, "moved by prefetches", kPrefetchedBytes);
  prefetched.moved("to_device_bytes", kPrefetchedRounds * kPrefetchedBytes, 0);
  prefetched.moved("to_host_bytes", kPrefetchedRounds * kPrefetchedBytes, 0);
  prefetched.exactly("gpu_faults", 0);
  prefetched.exactly("round_trips", kPrefetchedRounds);
  Statement stayed(truth, "first touched on the device", kDeviceOnlyBytes);
  stayed.exactly("migrated_bytes", 0);
  stayed.at_least("gpu_faults", 1);
}

}  // namespace

int main() {
  check(cudaSetDevice(0), "cudaSetDevice");
  const bool promised = has_attribute(cudaDevAttrConcurrentManagedAccess) &&
                        !has_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables);
  unsigned char* const moved = move_by_faults();
  unsigned char* const prefetched = move_by_prefetches();
  unsigned char* const stayed = stay_on_device();
  std::printf("bytes %d %d\n", moved[0], prefetched[0]);
  Truth truth("managed_migrations");
  truth.check("memory that nobody allocated", "managed", 0,
              R"(,"where":{"allocations":0},"field":"migrated_bytes")");
  if (promised) state_migrations(truth);
  truth.write();
  check(cudaFree(stayed), "cudaFree");
  check(cudaFree(prefetched), "cudaFree");
  check(cudaFree(moved), "cudaFree");
  return 0;
}
