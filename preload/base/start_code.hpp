// SPDX-License-Identifier: Apache-2.0
// Code that every process runs when it begins lies together, as the compiler puts constructors
// there: each further 64 KiB of the library that a process touches is a page fault.
#pragma once

#define GPUMEMTRACE_START_CODE gnu::section(".text.startup"), gnu::noinline
