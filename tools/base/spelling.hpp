// SPDX-License-Identifier: Apache-2.0
// Suggests the name that the user may have meant by an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::tools {

// The known name nearest to `written`; empty if none is within two letters, or a third of it.
[[nodiscard]] std::string nearest_name(std::string_view written,
                                       const std::vector<std::string>& known);

}  // namespace gpumemtrace::tools
