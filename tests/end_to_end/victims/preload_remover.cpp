// SPDX-License-Identifier: Apache-2.0
// A library that takes LD_PRELOAD away from whatever the program starts, as some launchers do.
#include <stdlib.h>

[[gnu::constructor]] static void remove_preload() { unsetenv("LD_PRELOAD"); }
