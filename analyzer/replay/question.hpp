// SPDX-License-Identifier: Apache-2.0
// A user's question about allocator settings, which a replay answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer::replay {

struct Question {
  std::vector<std::string> settings;      // tried beside the recorded and the usual settings
  std::vector<std::uint64_t> capacities;  // sizes of cards to fit, in bytes
  bool only_recorded = false;             // true: the recorded settings alone, and no packing
};

}  // namespace gpumemtrace::analyzer::replay
