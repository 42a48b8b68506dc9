// SPDX-License-Identifier: Apache-2.0
// The layer that a named tensor belongs to.
#pragma once

#include <string>

namespace gpumemtrace::analyzer {

// "h.3.mlp.c_fc.weight" -> "h.3.mlp.c_fc"; empty for a tensor of the model itself.
[[nodiscard]] inline std::string layer_of_tensor(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

}  // namespace gpumemtrace::analyzer
