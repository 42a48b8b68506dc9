// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/simulated_cuda/cuda_abi.hpp"

// Interface by which a profiling library, the simulated libcupti, listens to the simulated driver's
// work.

namespace gpumemtrace::cuda_abi::simulated {

struct ActivityListener {
  // Called around the outermost exported driver function, on the thread that calls it.
  void (*call_begins)(const char* symbol);
  void (*call_ended)(const char* symbol, CUresult result);
  // Called inside the driver function. `from_device`, `to_device`: the source or the destination is
  // device memory.
  void (*copied)(std::uint64_t bytes, bool from_device, bool to_device);
  void (*set)(std::uint64_t bytes, std::uint32_t value);
};

bool somebody_listens();
void announce_call_begin(const char* symbol);
void announce_call_end(const char* symbol, CUresult result);
void announce_copy(std::uint64_t bytes, std::uint64_t source, std::uint64_t destination);
void announce_set(std::uint64_t bytes, std::uint32_t value);

}  // namespace gpumemtrace::cuda_abi::simulated

extern "C" {
// Sets the process's only listener; nullptr removes it. Returns nonzero if another one is set.
int cuSimulatedListen(const gpumemtrace::cuda_abi::simulated::ActivityListener* listener);
// Between these two calls, the calling thread is inside a function of the CUDA runtime: its driver
// calls are no API calls of the program.
void cuSimulatedRuntimeBegins(const char* symbol);
void cuSimulatedRuntimeEnded(const char* symbol);
}
