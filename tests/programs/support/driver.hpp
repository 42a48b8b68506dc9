// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/simulated_cuda/cuda_abi.hpp"

// Access to the CUDA driver for programs that are not linked with it: they use the libcuda.so.1
// that the loader finds, real or simulated. Every call is counted in the program's truth.

namespace gpumemtrace::programs {

namespace abi = cuda_abi;

// Finds an exported function of the driver. Without a driver it ends the program as skipped; with
// `required` false it returns null for an absent symbol.
void* find_symbol(const char* symbol, bool required = true);

// Adds one call of a function to the truth and returns the call's result.
abi::CUresult count_call(const char* symbol, abi::CUresult result);

// Ends the program with a message if `result` is not success.
void require_success(const char* symbol, abi::CUresult result);

// True if the driver exports the symbol.
bool has_symbol(const char* symbol);

// The driver's name for a result.
std::string result_name(abi::CUresult result);

}  // namespace gpumemtrace::programs

// The exported function `symbol`, looked up once.
#define GPUMEMTRACE_FUNCTION(symbol)                                                    \
  ([] {                                                                                 \
    static auto* const function = reinterpret_cast<gpumemtrace::cuda_abi::symbol##_t*>( \
        gpumemtrace::programs::find_symbol(#symbol));                                   \
    return function;                                                                    \
  }())

// Calls the driver function and evaluates to its result.
#define GPUMEMTRACE_TRY(symbol, ...) \
  gpumemtrace::programs::count_call(#symbol, GPUMEMTRACE_FUNCTION(symbol)(__VA_ARGS__))

// Calls the driver function; a failure ends the program.
#define GPUMEMTRACE_CALL(symbol, ...) \
  gpumemtrace::programs::require_success(#symbol, GPUMEMTRACE_TRY(symbol, __VA_ARGS__))
