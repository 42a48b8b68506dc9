// SPDX-License-Identifier: Apache-2.0
// A libc10.so whose functions return at once. PyTorch's allocator reports every block to
// reportMemoryUsageToProfiler() (c10/core/Allocator.h, PyTorch 2.0 and later), is_enabled() says
// whether autograd saves data for a backward pass, and empty_generic() makes tensors
// (aten/src/ATen/EmptyTensor.h; in PyTorch it is in libtorch_cpu).

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

// The mangled name of c10::GradMode::is_enabled() (c10/core/GradMode.h).
extern "C" [[gnu::visibility("default"), gnu::noinline]] bool _ZN3c108GradMode10is_enabledEv() {
  return true;
}

// The mangled name of at::detail::empty_generic(IntArrayRef, Allocator*, DispatchKeySet,
// ScalarType, std::optional<MemoryFormat>). Its first argument is the address of the result.
extern "C" [[gnu::visibility("default"), gnu::noinline]] void*
_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeESt8optionalINS1_12MemoryFormatEE(
    void* tensor) {
  __asm__ volatile("");
  return tensor;
}
