// SPDX-License-Identifier: Apache-2.0
// A library that replaces CUDA and CUPTI under another library name, as programs do in their tests.
#include <cstddef>

#define STANDS_IN extern "C" [[gnu::visibility("default")]] int

STANDS_IN cuInit(unsigned) { return 0; }
STANDS_IN cuMemAlloc_v2(unsigned long long* address, std::size_t) {
  *address = 0x1000;
  return 0;
}
STANDS_IN cuMemFree_v2(unsigned long long) { return 0; }
STANDS_IN cuGetProcAddress_v2(const char*, void** function, int, unsigned long long, int*) {
  *function = reinterpret_cast<void*>(&cuInit);
  return 0;
}
STANDS_IN cuptiActivityEnable(int) { return 0; }
