// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/simulated_cuda/cuda_abi.hpp"

// Access to the CUDA driver for programs that link nothing: whichever libcuda.so.1 the loader
// finds, real or simulated. Every call is counted in the program's truth.

namespace gpumemtrace::programs {

namespace abi = cuda_abi;

// The exported function of that name. Ends the program, as skipped, if there is no driver; with
// `required` false an absent symbol gives null.
void* find_symbol(const char* symbol, bool required = true);

// Adds one call of a function to the truth and hands its result through.
abi::CUresult count_call(const char* symbol, abi::CUresult result);

// Ends the program with a message when a call that must succeed did not.
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

// Calls it and gives its result.
#define GPUMEMTRACE_TRY(symbol, ...) \
  gpumemtrace::programs::count_call(#symbol, GPUMEMTRACE_FUNCTION(symbol)(__VA_ARGS__))

// Calls it; a failure ends the program.
#define GPUMEMTRACE_CALL(symbol, ...) \
  gpumemtrace::programs::require_success(#symbol, GPUMEMTRACE_TRY(symbol, __VA_ARGS__))
