// SPDX-License-Identifier: Apache-2.0
// A library that is linked with stand_in.cpp's library, which replaces CUDA.
#include <cstddef>

extern "C" {
int cuInit(unsigned);
int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemFree_v2(unsigned long long);
int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, int*);
int cuptiActivityEnable(int);

// Returns how many of stand_in.cpp's functions were reached and behaved as defined there.
[[gnu::visibility("default")]] int use_stand_in() {
  unsigned long long address = 0;
  void* function = nullptr;
  return (cuInit(0) == 0) + (cuMemAlloc_v2(&address, 4096) == 0 && address == 0x1000) +
         (cuMemFree_v2(address) == 0) +
         (cuGetProcAddress_v2("cuInit", &function, 0, 0, nullptr) == 0 && function != nullptr) +
         (cuptiActivityEnable(1) == 0);
}
}
