// SPDX-License-Identifier: Apache-2.0
// What helps where PyTorch's free memory lies in pieces.
#pragma once

#include <string>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer {

// What to do besides the allocator's own setting: "let the short-lived blocks go and ... before
// train.py:12 (step) ...", without a full stop. `site` is where the blocks between the free ones
// were made; without it there is no advice.
[[nodiscard]] std::string advice_on_fragmentation(const std::optional<rows::Site>& site);

}  // namespace gpumemtrace::analyzer
