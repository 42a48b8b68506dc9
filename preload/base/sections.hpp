// SPDX-License-Identifier: Apache-2.0
// Sections of the library for code and data that are used at the same time.
#pragma once

// For data that every event reads. Between two events a program fills the caches with its own data,
// and the next event waits for each line and page that it needs: so data that every event reads and
// hardly anybody writes lies side by side, whichever folder defines it.
#define GPUMEMTRACE_HOT_DATA gnu::section("gpumemtrace_hot")

// For code and data that every process uses when it begins and ends: each further 64 KiB of code
// and each further page of data that a process touches is a page fault. The compiler puts
// constructors into the same section as this code.
#define GPUMEMTRACE_START_CODE gnu::section(".text.startup"), gnu::noinline
#define GPUMEMTRACE_START_DATA gnu::section("gpumemtrace_start")
