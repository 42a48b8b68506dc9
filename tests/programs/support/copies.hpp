// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/programs/support/driver.hpp"

// The parts of the program `copies` that need more than one line for each call.

// Calls a copy function and counts what it copied.
#define GPUMEMTRACE_COPY(direction, bytes, symbol, ...) \
  GPUMEMTRACE_CALL(symbol, __VA_ARGS__);                \
  gpumemtrace::programs::truth().copied(direction, bytes)

namespace gpumemtrace::programs {

// cuMemcpyBatchAsync and cuMemcpy3DBatchAsync; each piece of a batch counts as one copy.
void copy_batches(abi::CUdeviceptr destination, abi::CUdeviceptr source, abi::CUstream stream);

// The functions of CUDA 2.0 with 32-bit addresses, where the driver still gives out such addresses.
void copy_with_32_bit_functions();

// Every set function.
void set_every_way(abi::CUdeviceptr device, abi::CUstream stream);

}  // namespace gpumemtrace::programs
