// SPDX-License-Identifier: Apache-2.0
// Which PyTorch the process has loaded, from the file that says so beside the libraries: without
// running Python code. Background thread.
#pragma once

#include <cstddef>

namespace gpumemtrace::preload {

class LoaderList;

// The bytes of the version ("2.11.0+cu130") put into `out`; 0 if there is no PyTorch or its file
// is not like any that is known.
std::size_t read_torch_version(const LoaderList& modules, char* out, std::size_t capacity) noexcept;

}  // namespace gpumemtrace::preload
