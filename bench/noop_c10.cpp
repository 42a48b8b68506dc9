// SPDX-License-Identifier: Apache-2.0
// A libc10.so whose only function returns at once: PyTorch's allocator calls the real one for every
// block (c10/core/Allocator.h, PyTorch 2.0 and later).

#include <cstddef>
#include <cstdint>

struct Device {
  std::int8_t type;
  std::int8_t index;
};

// The mangled name of c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device).
extern "C" [[gnu::visibility("default"), gnu::noinline]] void
_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void*, std::int64_t, std::size_t, std::size_t,
                                                      Device) {
  __asm__ volatile("");
}
