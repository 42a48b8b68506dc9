// SPDX-License-Identifier: Apache-2.0
// What helps where PyTorch's free memory lies in pieces.
#pragma once

#include <string>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer {

// What to do besides the allocator's own setting: " Or free ... before train.py:12 (step) ...".
// `site` is where the blocks between the free ones were made; empty where that is not known.
[[nodiscard]] std::string advice_on_fragmentation(const std::optional<rows::Site>& site);

}  // namespace gpumemtrace::analyzer
