// SPDX-License-Identifier: Apache-2.0
// The tests and scenarios that a program which explores the recorder runs.
#pragma once

#include <vector>

#include "tests/exploration/explorer.hpp"

namespace gpumemtrace::exploration {

// Tests the explorer itself: false, and a line on stdout, if it is wrong. Defined in litmus.cpp.
bool litmus_tests_hold();

// A scenario: one part of the recorder in every order of its steps. Defined in the *_scenarios.cpp
// files.
struct Proof {
  const char* name;
  Outcome (*run)();
};
const std::vector<Proof>& proofs();

}  // namespace gpumemtrace::exploration
