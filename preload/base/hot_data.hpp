// SPDX-License-Identifier: Apache-2.0
// The section for data that every event reads. Between two events a program fills the caches with
// its own data, and the next event waits for each line and page that it needs: so data that every
// event reads and hardly anybody writes lies side by side, whichever room it belongs to.
#pragma once

#define GPUMEMTRACE_HOT_DATA gnu::section("gpumemtrace_hot")
