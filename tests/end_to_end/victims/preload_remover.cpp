// SPDX-License-Identifier: Apache-2.0
// A library that removes LD_PRELOAD from the environment of child programs, as some launchers do.
#include <stdlib.h>

[[gnu::constructor]] static void remove_preload() { unsetenv("LD_PRELOAD"); }
