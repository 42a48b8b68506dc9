// SPDX-License-Identifier: Apache-2.0
// Bytes by the name of their holder: a category, a line, a layer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpumemtrace::tools {

using BytesByName = std::map<std::string, std::uint64_t>;

struct NamedBytes {
  std::string name;
  std::uint64_t bytes = 0;
};

// Equal numbers are sorted by name.
[[nodiscard]] std::vector<NamedBytes> largest_first(const BytesByName& sums);

}  // namespace gpumemtrace::tools
