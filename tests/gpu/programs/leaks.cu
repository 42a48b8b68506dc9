// SPDX-License-Identifier: Apache-2.0
// Leaks known amounts of device memory beside memory that is freed properly. With --reset the
// program ends with cudaDeviceReset, which compute-sanitizer needs to look for leaks; with --busy
// it also works for a while, so that the cost of tools can be compared.
//
// Built with debug information. Functions marked KEPT have frames of their own, so that all tools
// see the same functions and lines; `grow` is inlined, so that a leak has a frame without a call.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::KindLedger;
using gpumemtrace::gpu_tests::Truth;

#define KEPT __attribute__((noinline, noclone))

constexpr std::size_t kKiB = 1024;
constexpr int kBusyRounds = 3000;

KEPT void* allocate(KindLedger& ledger, std::size_t bytes) {
  void* address = nullptr;
  if (cudaMalloc(&address, bytes) == cudaSuccess) ledger.allocate(bytes);
  return address;
}

KEPT void leak_many_small(KindLedger& ledger) {
  for (std::size_t i = 0; i < 16; ++i) allocate(ledger, kKiB + i * 16);
}

KEPT void leak_two_large(KindLedger& ledger) {
  for (int i = 0; i < 2; ++i) allocate(ledger, 3072 * kKiB);
}

__attribute__((always_inline)) inline void grow(KindLedger& ledger, std::size_t bytes) {
  allocate(ledger, bytes);
}

KEPT void leak_through_inlined_function(KindLedger& ledger) { grow(ledger, 5 * kKiB); }

KEPT void leak_by_recursion(KindLedger& ledger, int depth) {
  if (depth > 0) {
    leak_by_recursion(ledger, depth - 1);
  } else {
    allocate(ledger, 7 * kKiB);
  }
  __asm__ volatile("" ::: "memory");  // prevents a tail call, which would become a loop
}

KEPT void free_properly(KindLedger& ledger) {
  for (std::size_t i = 1; i <= 20; ++i) {
    void* address = allocate(ledger, i * 100 * kKiB);
    if (cudaFree(address) == cudaSuccess) ledger.free(i * 100 * kKiB);
  }
}

__global__ void touch(unsigned char* bytes) { bytes[threadIdx.x] += 1; }

// Twenty allocations of up to 2 MiB a round, each touched by a kernel and freed.
void work(KindLedger& ledger) {
  for (int round = 0; round < kBusyRounds; ++round) {
    for (std::size_t i = 1; i <= 20; ++i) {
      void* address = allocate(ledger, i * 100 * kKiB);
      touch<<<1, 256>>>(static_cast<unsigned char*>(address));
      if (cudaFree(address) == cudaSuccess) ledger.free(i * 100 * kKiB);
    }
  }
}

bool has_option(int argument_count, char** arguments, const char* option) {
  for (int i = 1; i < argument_count; ++i) {
    if (std::strcmp(arguments[i], option) == 0) return true;
  }
  return false;
}

}  // namespace

int main(int argument_count, char** arguments) {
  KindLedger ledger;
  leak_many_small(ledger);
  free_properly(ledger);
  leak_two_large(ledger);
  leak_through_inlined_function(ledger);
  leak_by_recursion(ledger, 3);
  free_properly(ledger);
  if (has_option(argument_count, arguments, "--busy")) work(ledger);
  std::printf("leaked %llu bytes in %llu allocations\n",
              static_cast<unsigned long long>(ledger.live_bytes()),
              static_cast<unsigned long long>(ledger.live_count()));

  // Memory that a reset ends is leaked all the same.
  const bool reset = has_option(argument_count, arguments, "--reset");
  const KindLedger leaked = ledger;
  if (reset) ledger.end_with_context();
  Truth truth("leaks");
  truth.usage("driver", "device", ledger);
  truth.check("leaked bytes", "leaks", leaked.live_bytes(), R"(,"field":"total_bytes")");
  truth.check("leaked allocations", "leaks", leaked.live_count(), R"(,"field":"total_count")");
  truth.check("leaks were checked", "leaks", 1,
              R"(,"where":{"state":"checked"},"combine":"count")");
  truth.write();
  if (reset) cudaDeviceReset();
  return leaked.live_count() == 0 ? 1 : 0;
}
