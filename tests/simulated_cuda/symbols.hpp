// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace gpumemtrace::cuda_abi::simulated {

struct SymbolSearch {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// Finds the newest export of a base name that CUDA `version` has, as cuGetProcAddress does.
SymbolSearch find_symbol(const char* base_name, int version, bool per_thread_stream);

}  // namespace gpumemtrace::cuda_abi::simulated
