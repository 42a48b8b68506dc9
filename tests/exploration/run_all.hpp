// SPDX-License-Identifier: Apache-2.0
// The parts of the program `exploration`.
#pragma once

#include <vector>

#include "tests/exploration/explorer.hpp"

namespace gpumemtrace::exploration {

// False, and a line on stdout, where the explorer itself is wrong. litmus.cpp
bool litmus_tests_hold();

// One part of the recorder in every order of its steps. scenarios.cpp
struct Proof {
  const char* name;
  Outcome (*run)();
};
const std::vector<Proof>& proofs();

}  // namespace gpumemtrace::exploration
