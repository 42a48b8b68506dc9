// SPDX-License-Identifier: Apache-2.0
// The copies of libcupti in the process. Threads of the program only: the list of files is read
// under the loader's lock.
#pragma once

#include "cupti/library.hpp"

namespace gpumemtrace::preload {

// The copy whose file surrounds `address`; nullptr where that is none.
cupti::Library* cupti_library_around(const void* address) noexcept;

// The copy that a call of a linked symbol means: the only one, or the one that the caller's file
// names as needed. nullptr where none is loaded.
cupti::Library* cupti_library_for(const void* caller) noexcept;

struct LoadedCupti {
  cupti::Library* library = nullptr;  // the first
  const char* other = nullptr;  // the second copy's, or Triton's profiler's, which brings its own
};
LoadedCupti look_for_cupti() noexcept;

// Address of a function of that copy; nullptr where it has none of the name.
void* symbol_of(const cupti::Library& library, const char* name) noexcept;
// The loader's text.
const char* path_of(const cupti::Library& library) noexcept;

// In a forked child: what is known of the copies' use is the parent's.
void reset_cupti_libraries() noexcept;

}  // namespace gpumemtrace::preload
