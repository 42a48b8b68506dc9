// SPDX-License-Identifier: Apache-2.0
// The names of call sites and of those who hold memory, the same in findings, tables and exports.
#pragma once

#include <optional>
#include <string>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer {

// "train.py:12 (step)", "libfastops.so (cudaMalloc)"; "a place that is not known".
[[nodiscard]] std::string site_text(const std::optional<rows::Site>& site);
// The same for a row's second place; empty if the row does not have it, or if it has the line of
// its own site but of this one only a library.
[[nodiscard]] std::string location_text(const rows::OptionalLocation& location,
                                        const std::optional<rows::Site>& own = std::nullopt);

// "at train.py:12 (step)"; "some at ..." if not all that the row counts was there.
[[nodiscard]] std::string at_text(const std::string& location, bool is_partly);

// "train.py:88 (evaluate)", else the owner.
[[nodiscard]] std::string name_line(const rows::Origin& origin);

// "pytorch", "pytorch at train.py:12 in step", "libfastops.so": the known parts of an origin. Work
// of a backward pass: "pytorch at train.py:30 in main, backward of AddmmBackward0".
[[nodiscard]] std::string name_holder(const rows::Origin& origin);

}  // namespace gpumemtrace::analyzer
