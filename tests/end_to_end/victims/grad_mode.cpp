// SPDX-License-Identifier: Apache-2.0
// Replaces libc10.so: keeps PyTorch's gradient mode (c10/core/GradMode.h), which is per thread and
// says whether autograd saves data for a backward pass. Its function that
// reports memory usage does nothing.
#include <cstddef>
#include <cstdint>

namespace {

struct Device {
  std::int8_t type;
  std::int8_t index;
};

thread_local bool is_on = true;

}  // namespace

extern "C" {
[[gnu::visibility("default")]] bool _ZN3c108GradMode10is_enabledEv() { return is_on; }
[[gnu::visibility("default")]] void _ZN3c108GradMode11set_enabledEb(bool enabled) {
  is_on = enabled;
}
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    void*, std::int64_t, std::size_t, std::size_t, Device) {}
}
