// SPDX-License-Identifier: Apache-2.0
/* gpumemtrace.h in C, and in a program that is not recorded. */
#include "preload/api/gpumemtrace.h"

GPUMEMTRACE_SUPPRESSIONS("leak:nowhere");

static const int kStorage;

int main(void) {
  gpumemtrace_start();
  gpumemtrace_step();
  gpumemtrace_push("range");
  gpumemtrace_mark("mark");
  gpumemtrace_mark(GPUMEMTRACE_LEAKS_FROM_HERE);
  gpumemtrace_suppress("leak:nothing");
  gpumemtrace_tensor(&kStorage, sizeof kStorage, GPUMEMTRACE_PARAMETER, "weight", NULL, NULL);
  gpumemtrace_pop();
  gpumemtrace_stop();
  return 0;
}
