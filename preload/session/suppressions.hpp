// SPDX-License-Identifier: Apache-2.0
// Findings that the program itself wants left out, in the syntax of a suppressions file.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpumemtrace::preload {

// Keeps a copy of every line of the text for this trace and those of children. Lines that are too
// long or too many are left out with a message. Any thread; no lock, no allocation.
void keep_suppressions(std::string_view text) noexcept;

// The background thread writes them.
std::size_t suppression_count() noexcept;
std::string_view suppression_at(std::size_t index) noexcept;

}  // namespace gpumemtrace::preload
