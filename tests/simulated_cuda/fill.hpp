// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace gpumemtrace::cuda_abi::simulated {

// A memset of the driver: `height` rows of `width` elements; rows begin `pitch` bytes apart.
struct Fill {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;
  std::uint32_t value = 0;
  std::uint64_t element_bytes = 1;
  std::uint64_t width = 0;
  std::uint64_t height = 1;
};

CUresult fill_now(const Fill& fill);

}  // namespace gpumemtrace::cuda_abi::simulated
