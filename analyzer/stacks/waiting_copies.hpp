// SPDX-License-Identifier: Apache-2.0
// Copies for which the caller waits at once, although the copy itself is asynchronous.
#pragma once

#include <string_view>

namespace gpumemtrace::analyzer {

// PyTorch's functions that copy to pinned memory and then synchronize with the stream: .item() and
// what uses it (float(), if tensor:), boolean masks.
[[nodiscard]] inline bool waits_for_its_copy(std::string_view function) {
  for (const std::string_view name :
       {"at::native::_local_scalar_dense_cuda", "at::native::nonzero_cuda_out_impl",
        "cuda::memcpy_and_sync"}) {
    if (function.find(name) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace gpumemtrace::analyzer
