// SPDX-License-Identifier: Apache-2.0
// Catch2 (2 and 3): include this in one source file of the tests, behind Catch2's own header; with
// Catch2 2 in the file that defines CATCH_CONFIG_MAIN. Each test case is a range of the trace, so
// that `gpumemtrace check` and the report name the test in which memory was lost. Without the
// recorder it does nothing.
#pragma once

#include "gpumemtrace.h"

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using GpumemtraceListenerBase = Catch::EventListenerBase;
#else
using GpumemtraceListenerBase = Catch::TestEventListenerBase;
#endif

// In no namespace, because CATCH_REGISTER_LISTENER forms an identifier from the name.
struct GpumemtraceListener : GpumemtraceListenerBase {
  using GpumemtraceListenerBase::GpumemtraceListenerBase;

  void testCaseStarting(Catch::TestCaseInfo const& info) override {
    gpumemtrace_push(info.name.c_str());
  }
  void testCaseEnded(Catch::TestCaseStats const&) override { gpumemtrace_pop(); }
};

CATCH_REGISTER_LISTENER(GpumemtraceListener)
