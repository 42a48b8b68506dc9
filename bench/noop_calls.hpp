// SPDX-License-Identifier: Apache-2.0
// The measured calls, each in two forms: the recorder's wrapper, as a traced program calls it, and
// the unwrapped function.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/driver/cuda_abi.hpp"

namespace gpumemtrace::bench {

// Has the layout of c10::Device: type, then index.
struct C10Device {
  std::int8_t type = 1;  // 1 is CUDA
  std::int8_t index = 0;
};
// C10Sizes has the layout of c10::ArrayRef<int64_t>, and C10Tensor that of at::TensorBase, which
// functions return in memory that the caller provides.
struct C10Sizes {
  const std::int64_t* data = nullptr;
  std::size_t count = 0;
};
struct C10Tensor {
  void* data;
  ~C10Tensor() {}  // NOLINT(modernize-use-equals-default): a trivial one would come in a register
};
using MakeTensor = C10Tensor(C10Sizes, void* allocator, std::uint64_t keys, std::uint64_t type,
                             std::uint64_t format);
using ReportBlock = void(void*, std::int64_t, std::size_t, std::size_t, C10Device);

struct Calls {
  cuda_abi::cuCtxSetCurrent_t* set_context = nullptr;
  cuda_abi::cuMemAlloc_v2_t* allocate = nullptr;
  cuda_abi::cuMemFree_v2_t* free = nullptr;
  cuda_abi::cuMemAllocAsync_t* allocate_async = nullptr;
  cuda_abi::cuMemFreeAsync_t* free_async = nullptr;
  cuda_abi::cuMemcpyAsync_t* copy_async = nullptr;
  ReportBlock* report_block = nullptr;
  MakeTensor* make_tensor = nullptr;
};

struct CallForms {
  Calls wrapped;
  Calls unwrapped;
};

// Loads the no-op driver and the no-op libc10. Throws std::runtime_error if a function is missing
// or the recorder does not intercept it.
[[nodiscard]] CallForms load_calls();

}  // namespace gpumemtrace::bench
