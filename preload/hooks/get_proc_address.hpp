// SPDX-License-Identifier: Apache-2.0
// The wrappers of cuGetProcAddress, through which CUDA runtimes get their pointers to the driver's
// functions: a result that is, by its value, a function that we wrap is exchanged for the wrapper.
#pragma once

#include <cstdint>
#include <string_view>

#include "preload/driver/coverage.hpp"
#include "preload/driver/cuda_abi.hpp"
#include "preload/driver/driver.hpp"

namespace gpumemtrace::preload {

// A CUDA runtime fetches the driver's table right after asking for cuGetProcAddress itself, or
// probing with an empty name: its code is around the caller.
inline void recognize_runtime(const char* name, const void* caller) noexcept {
  if (name == nullptr) return;
  const std::string_view asked_for(name);
  if (asked_for.empty() || asked_for == "cuGetProcAddress") driver::record_runtime_caller(caller);
}

template <class Function, driver::Entry kEntry>
Function* real_or_stand_in(int version) noexcept {
  void* function = driver::real_get_proc_address(version, kEntry);
  if (function == nullptr) {
    function = driver::stand_in(get_proc_address_versions()[version - 1], kEntry);
  }
  return reinterpret_cast<Function*>(function);
}

template <driver::Entry kEntry>
cuda_abi::CUresult get_proc_address_v1(const char* name, void** function, int version,
                                       std::uint64_t flags) {
  auto* const real = real_or_stand_in<cuda_abi::cuGetProcAddress_t, kEntry>(1);
  if (real == nullptr) return cuda_abi::CUDA_ERROR_NOT_INITIALIZED;
  recognize_runtime(name, __builtin_return_address(0));
  const cuda_abi::CUresult result = real(name, function, version, flags);
  if (result == cuda_abi::CUDA_SUCCESS && function != nullptr)
    *function = driver::wrap(*function, name);
  return result;
}

template <driver::Entry kEntry>
cuda_abi::CUresult get_proc_address_v2(const char* name, void** function, int version,
                                       std::uint64_t flags,
                                       cuda_abi::CUdriverProcAddressQueryResult* status) {
  auto* const real = real_or_stand_in<cuda_abi::cuGetProcAddress_v2_t, kEntry>(2);
  if (real == nullptr) return cuda_abi::CUDA_ERROR_NOT_INITIALIZED;
  recognize_runtime(name, __builtin_return_address(0));
  const cuda_abi::CUresult result = real(name, function, version, flags, status);
  if (result == cuda_abi::CUDA_SUCCESS && function != nullptr)
    *function = driver::wrap(*function, name);
  return result;
}

}  // namespace gpumemtrace::preload
