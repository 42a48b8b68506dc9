// SPDX-License-Identifier: Apache-2.0
// The question that a replay answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer::replay {

struct Question {
  std::vector<std::string> settings;      // beside the recorded and the usual ones
  std::vector<std::uint64_t> capacities;  // of cards, in bytes
  bool only_recorded = false;             // no other settings, and no packing
};

}  // namespace gpumemtrace::analyzer::replay
