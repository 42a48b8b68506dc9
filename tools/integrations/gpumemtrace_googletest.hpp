// SPDX-License-Identifier: Apache-2.0
// GoogleTest: include this in one source file of the tests. Each test is a range of the trace, so
// that `gpumemtrace check` and the report name the test in which memory was lost. Without the
// recorder it does nothing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gpumemtrace.h"

namespace gpumemtrace_googletest {

class Listener : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override {
    gpumemtrace_push((std::string(info.test_suite_name()) + "." + info.name()).c_str());
  }
  void OnTestEnd(const testing::TestInfo&) override { gpumemtrace_pop(); }
};

// Registers the listener, which GoogleTest then owns.
inline const bool kRegistered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<Listener>().release());
  return true;
}();

}  // namespace gpumemtrace_googletest
