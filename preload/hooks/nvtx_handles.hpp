// SPDX-License-Identifier: Apache-2.0
// The texts behind NVTX handles: registered strings and names of domains. A program makes them long
// before it uses CUDA and never again, so they outlive recordings and forks.
#pragma once

#include <string_view>

namespace gpumemtrace::preload::nvtx {

// Any thread, no lock. `handle` is the one that another tool gave out; if it is nullptr, we make
// one. Returns the handle for the program; nullptr if there is no room for its text.
const void* remember_text(const void* handle, std::string_view text) noexcept;

// Empty if the handle is not known. The text stays valid.
std::string_view text_of_handle(const void* handle) noexcept;

}  // namespace gpumemtrace::preload::nvtx
