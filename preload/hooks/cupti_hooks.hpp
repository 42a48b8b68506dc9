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

// The result for a program whose dlsym, in a search of the whole process, has found `own`, our
// exported symbol. `behind_us` is what the search would have found without this library: if it is
// not nullptr, the result is its wrapper, else `own` if a libcupti is loaded, else nullptr.
void* answer_cupti_symbol(void* own, void* behind_us, const char* name) noexcept;

}  // namespace gpumemtrace::preload
