// SPDX-License-Identifier: Apache-2.0
// The options that PyTorch's allocator took last, from its environment or from the program.
#pragma once

#include <string_view>

namespace gpumemtrace::preload {

// Keeps a copy for traces that begin later. Any thread; no lock, no allocation.
void keep_allocator_options(std::string_view text) noexcept;

// Without data() where PyTorch took none. Stays as it is.
[[nodiscard]] std::string_view last_allocator_options() noexcept;

}  // namespace gpumemtrace::preload
