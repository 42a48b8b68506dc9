// SPDX-License-Identifier: Apache-2.0
// The sections for code and data that every process uses when it begins and ends: each further 64
// KiB of code and each further page of data that a process touches is a page fault. The compiler
// puts constructors into the same section as this code.
#pragma once

#define GPUMEMTRACE_START_CODE gnu::section(".text.startup"), gnu::noinline
#define GPUMEMTRACE_START_DATA gnu::section("gpumemtrace_start")
