// SPDX-License-Identifier: Apache-2.0
// The start of a program that is linked for an old glibc. From glibc 2.34 on the loader calls a
// program's constructors; an older loader leaves that to the program's start-up code, but new
// start-up code no longer does it.
#include <stddef.h>

typedef int (*main_function)(int, char**, char**);
typedef void (*constructor)(int, char**, char**);

#define OURS __attribute__((visibility("hidden")))
extern constructor __init_array_start[] OURS;
extern constructor __init_array_end[] OURS;
extern void _init(void) OURS;

static void construct(int count, char** arguments, char** environment) {
  _init();
  const ptrdiff_t constructors = __init_array_end - __init_array_start;
  for (ptrdiff_t i = 0; i < constructors; ++i) {
    __init_array_start[i](count, arguments, environment);
  }
}

int __real___libc_start_main(main_function main, int count, char** arguments, constructor init,
                             void (*fini)(void), void (*loaders_end)(void), void* stack);
OURS int __wrap___libc_start_main(main_function main, int count, char** arguments, constructor init,
                                  void (*fini)(void), void (*loaders_end)(void), void* stack) {
  (void)init;
  return __real___libc_start_main(main, count, arguments, construct, fini, loaders_end, stack);
}
