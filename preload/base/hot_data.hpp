// SPDX-License-Identifier: Apache-2.0
// Where events find what they read of the process. Between two of them a program takes the caches
// for its own, and each line and page that the next one needs is one more to wait for: so what
// every event reads and hardly anybody writes lies side by side, whichever room it belongs to.
#pragma once

#define GPUMEMTRACE_HOT_DATA gnu::section("gpumemtrace_hot")
