// SPDX-License-Identifier: Apache-2.0
// Converts names of functions to the form that people read.
#pragma once

#include <string>

namespace gpumemtrace::analyzer {

// The demangled name, without the marks of copies that compilers make (`.part.0`, `.cold`), at most
// some thousand letters. A name that cannot be demangled stays as it is.
[[nodiscard]] std::string readable_name(const char* symbol);

// True if time and memory for demangling are bounded even for a hostile name: that needs a
// statically linked libstdc++.
[[nodiscard]] bool can_demangle_bounded();

}  // namespace gpumemtrace::analyzer
