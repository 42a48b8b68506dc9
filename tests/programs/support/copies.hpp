// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/programs/support/driver.hpp"

// Copies and sets of the program `copies` that need more than one line for each call.

// Calls a copy function and adds the copy to the program's truth.
#define GPUMEMTRACE_COPY(direction, bytes, symbol, ...) \
  GPUMEMTRACE_CALL(symbol, __VA_ARGS__);                \
  gpumemtrace::programs::truth().copied(direction, bytes)

namespace gpumemtrace::programs {

// Copies by cuMemcpyBatchAsync and cuMemcpy3DBatchAsync; each piece of a batch counts as one copy.
void copy_batches(abi::CUdeviceptr destination, abi::CUdeviceptr source, abi::CUstream stream);

// Copies by the functions of CUDA 2.0 with 32-bit addresses, if the driver still returns such
// addresses.
void copy_with_32_bit_functions();

// Calls every set (memset) function of the driver.
void set_every_way(abi::CUdeviceptr device, abi::CUstream stream);

}  // namespace gpumemtrace::programs
