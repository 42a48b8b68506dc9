// SPDX-License-Identifier: Apache-2.0
// The few driver functions that most test programs ("victims") call, found by dlsym. They keep no
// record of the calls: each victim shows one hazard and nothing else. A failed call ends the
// program with code 3.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace gpumemtrace::victims {

namespace abi = cuda_abi;

[[noreturn]] inline void give_up(const char* what) {
  std::fprintf(stderr, "victim: %s\n", what);
  std::_Exit(3);
}

inline void require(bool condition, const char* what) {
  if (!condition) give_up(what);
}

template <class Function>
Function* function(const char* symbol) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  require(library != nullptr, "there is no driver");
  void* const found = dlsym(library, symbol);
  require(found != nullptr, symbol);
  return reinterpret_cast<Function*>(found);
}

inline void call(abi::CUresult result, const char* symbol) {
  require(result == abi::CUDA_SUCCESS, symbol);
}

inline abi::CUcontext start_driver() {
  call(function<abi::cuInit_t>("cuInit")(0), "cuInit");
  abi::CUcontext context = nullptr;
  call(function<abi::cuDevicePrimaryCtxRetain_t>("cuDevicePrimaryCtxRetain")(&context, 0),
       "cuDevicePrimaryCtxRetain");
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  return context;
}

inline abi::CUdeviceptr allocate(std::size_t bytes) {
  static auto* const allocate = function<abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  abi::CUdeviceptr address = 0;
  call(allocate(&address, bytes), "cuMemAlloc_v2");
  return address;
}

inline void free_memory(abi::CUdeviceptr address) {
  static auto* const free = function<abi::cuMemFree_v2_t>("cuMemFree_v2");
  call(free(address), "cuMemFree_v2");
}

}  // namespace gpumemtrace::victims
