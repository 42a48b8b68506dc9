// SPDX-License-Identifier: Apache-2.0
// Leaks memory, and contains a suppression that leaves this leak out of reports.
#include "preload/api/gpumemtrace.h"
#include "tests/end_to_end/victims/driver_calls.hpp"

GPUMEMTRACE_SUPPRESSIONS("# what it leaks\nleak:^suppressing$");

int main() {
  using namespace gpumemtrace::victims;
  start_driver();
  allocate(1 << 20);
}
