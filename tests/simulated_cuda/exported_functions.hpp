// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/cuda_abi.hpp"

// Declares the simulated driver's functions, for programs that are linked with it.

#define GPUMEMTRACE_EXPORT(count, symbol, version, needs, implementation) \
  extern "C" gpumemtrace::cuda_abi::symbol##_t symbol;
#include "tests/simulated_cuda/exports.inc"
#undef GPUMEMTRACE_EXPORT
