// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace gpumemtrace::cuda_abi::simulated {

struct SymbolSearch {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// The newest export of a base name that CUDA `version` had, as cuGetProcAddress picks it.
SymbolSearch find_symbol(const char* base_name, int version, bool per_thread_stream);

}  // namespace gpumemtrace::cuda_abi::simulated
