// SPDX-License-Identifier: Apache-2.0
// The width of text for a person.
#pragma once

#include <cstddef>
#include <cstdio>

namespace gpumemtrace::tools {

inline constexpr std::size_t kDefaultWidth = 80;

inline constexpr std::size_t kLeastWidth = 40;  // in fewer columns words are cut apart

// The columns in COLUMNS if it is set, else of the terminal behind the stream; 0: there is none.
[[nodiscard]] std::size_t columns_of(std::FILE* stream);

// The columns in COLUMNS if it is set, else of the terminal behind the stream, else kDefaultWidth;
// between 40 and 200.
[[nodiscard]] std::size_t output_width(std::FILE* stream);

}  // namespace gpumemtrace::tools
