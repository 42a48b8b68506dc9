// SPDX-License-Identifier: Apache-2.0
// The ways by which the program reaches CUPTI:
//
//   - exported cupti* symbols, for objects that are linked to libcupti;
//   - results of dlsym, exchanged by their value for wrappers of that copy of libcupti.
#pragma once

namespace gpumemtrace::preload {

// A name that this file answers for.
[[nodiscard]] bool is_cupti_name(const char* name) noexcept;

// The function for `address`, which dlsym has found by `name`: a wrapper, the same function of the
// copy through which we collect, or `address` itself. `name` is a cupti name.
void* wrap_cupti(void* address, const char* name) noexcept;

// A search of the whole process has found our exported symbol. `behind_us` (may be nullptr) is the
// result that the search would have without us.
void* answer_cupti_symbol(void* own, void* behind_us, const char* name) noexcept;

}  // namespace gpumemtrace::preload
