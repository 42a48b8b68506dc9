// SPDX-License-Identifier: Apache-2.0
// Names of functions in the form that people read.
#pragma once

#include <string>

namespace gpumemtrace::analyzer {

// Demangled, without the marks of copies that compilers make (`.part.0`, `.cold`), at most some
// thousand letters. A name that cannot be demangled stays as it is.
[[nodiscard]] std::string readable_name(const char* symbol);

// True if the time and memory for a hostile name are bounded, too: if libstdc++ is linked
// statically.
[[nodiscard]] bool can_demangle_bounded();

}  // namespace gpumemtrace::analyzer
