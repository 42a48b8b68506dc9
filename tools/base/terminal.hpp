// SPDX-License-Identifier: Apache-2.0
// How wide what a person reads may be.
#pragma once

#include <cstddef>
#include <cstdio>

namespace gpumemtrace::tools {

inline constexpr std::size_t kDefaultWidth = 80;

inline constexpr std::size_t kLeastWidth = 40;  // in fewer columns words are cut apart

// Of COLUMNS where it is set, else of the terminal that the stream is; 0: there is none.
[[nodiscard]] std::size_t columns_of(std::FILE* stream);

// Of COLUMNS where it is set, else of the terminal that the stream is, else kDefaultWidth; between
// 40 and 200 letters.
[[nodiscard]] std::size_t output_width(std::FILE* stream);

}  // namespace gpumemtrace::tools
