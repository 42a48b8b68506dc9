// SPDX-License-Identifier: Apache-2.0
// The version of the loaded PyTorch, from a file of its package beside the libraries: without
// running Python code. Background thread.
#pragma once

#include <cstddef>

namespace gpumemtrace::preload {

class LoaderList;

// Puts the version ("2.11.0+cu130") into `out` and returns its bytes; 0 if there is no PyTorch or
// its file has an unknown form.
std::size_t read_torch_version(const LoaderList& modules, char* out, std::size_t capacity) noexcept;

}  // namespace gpumemtrace::preload
