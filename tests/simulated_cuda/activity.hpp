// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/simulated_cuda/cuda_abi.hpp"

// The driver's work as a profiling library sees it: the simulated libcupti listens.

namespace gpumemtrace::cuda_abi::simulated {

struct ActivityListener {
  // The outermost call of an exported function, on the calling thread.
  void (*call_begins)(const char* symbol);
  void (*call_ended)(const char* symbol, CUresult result);
  // Inside the call. `kinds`: whether source and destination are a device's.
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
// One listener at a time; nullptr ends it. Nonzero where another one listens already.
int cuSimulatedListen(const gpumemtrace::cuda_abi::simulated::ActivityListener* listener);
// Between the two, the calling thread is inside a function of the CUDA runtime: its driver calls
// are no API calls of the program.
void cuSimulatedRuntimeBegins(const char* symbol);
void cuSimulatedRuntimeEnded(const char* symbol);
}
