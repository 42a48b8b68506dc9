// SPDX-License-Identifier: Apache-2.0
// A question of a policy with its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/check/peak_holders.hpp"

namespace gpumemtrace::tools {

// The number that a limit is about. It lies between two numbers if the trace leaves a range.
struct LimitedBytes {
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;
  std::uint64_t allowed_bytes = 0;
};

// One question of the policy and its answer.
struct PolicyCheck {
  std::string name;     // as the option is called
  std::string subject;  // the device, the level or the rule; may be empty
  std::string message;
  bool holds = true;
  bool baseline_can_accept = false;          // if it does not hold
  std::string holders_title = {};            // the same; the title of the holders
  std::vector<HeldBytes> holders = {};       // the same; who held a peak, copied or grew
  std::optional<LimitedBytes> limited = {};  // empty if the question is about no bytes
};

}  // namespace gpumemtrace::tools
