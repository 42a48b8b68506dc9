// SPDX-License-Identifier: Apache-2.0
// The ways by which the program reaches CUPTI:
//
//   - exported cupti* symbols, for objects that are linked to libcupti;
//   - results of dlsym: a result in a copy of libcupti is replaced by the wrapper for that copy.
#pragma once

namespace gpumemtrace::preload {

// True if `name` begins with "cupti" and an upper-case letter: this file handles such names.
[[nodiscard]] bool is_cupti_name(const char* name) noexcept;

// The function that the program gets instead of `address`, which dlsym has found by the cupti name
// `name`: a wrapper, the same function of the copy of libcupti through which we collect, or
// `address` itself.
void* wrap_cupti(void* address, const char* name) noexcept;

// The answer to a dlsym of the whole process that has found `own`, our exported symbol. `behind_us`
// (may be nullptr) is the result that the search would have without this library.
void* answer_cupti_symbol(void* own, void* behind_us, const char* name) noexcept;

}  // namespace gpumemtrace::preload
