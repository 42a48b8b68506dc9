// SPDX-License-Identifier: Apache-2.0
// Names call sites and holders of memory in the same way in findings, tables and exports.
#pragma once

#include <optional>
#include <string>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer {

// A call site: "train.py:12 (step)", "libfastops.so (cudaMalloc)", or "a place that is not known".
[[nodiscard]] std::string site_text(const std::optional<rows::Site>& site);
// A second location of a row, written as site_text() does. Empty if there is none, or if it tells
// less than the row's site `own`: it has no file and `own` is Python code, or it has only a library
// and `own` has a file.
[[nodiscard]] std::string location_text(const rows::OptionalLocation& location,
                                        const std::optional<rows::Site>& own = std::nullopt);

// The location with "at": "at train.py:12 (step)"; "some at ..." if it holds only for a part of
// what the row counts.
[[nodiscard]] std::string at_text(const std::string& location, bool is_partly);

// The site of an origin, such as "train.py:88 (evaluate)"; its owner if no site is known.
[[nodiscard]] std::string name_line(const rows::Origin& origin);

// The known parts of an origin: "pytorch", "pytorch at train.py:12 in step", "libfastops.so". If it
// allocated in a backward pass: "pytorch at train.py:30 in main, backward of AddmmBackward0".
[[nodiscard]] std::string name_holder(const rows::Origin& origin);

}  // namespace gpumemtrace::analyzer
