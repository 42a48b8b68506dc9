// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator tells a function of libc10 about every block that it hands out or
// takes back, whether or not a profiler runs. Ours stands before it under the same name, records
// the block and passes the call on.
//
// - Called inside the allocator's mutex: no call of CUDA, PyTorch or Python here, nothing that
//   waits. The real function is found through libc10's own symbol table.
// - The name is the mangled C++ name, which has changed with the types of the arguments; all forms
//   in use from PyTorch 1.5 on are here. `Device` is two bytes in one register: type, then index.
//
// Sources: c10/core/Allocator.h of the named releases.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/loader/elf_symbols.hpp"
#include "preload/python/python_collections.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kUnknownTotal = ~std::uint64_t{0};
constexpr std::int8_t kCuda = 1;  // c10::DeviceType

struct Device {
  std::int8_t type;
  std::int8_t index;
};

// The function behind ours, by mangled name.
class Forward {
 public:
  explicit constexpr Forward(const char* name) noexcept : name_(name) {}
  void* get() noexcept {
    void* known = address_.load(std::memory_order_relaxed);  // the pointer is all there is
    if (known == nullptr) {
      known = find_symbol("libc10.so", name_);
      address_.store(known, std::memory_order_relaxed);
    }
    return known;
  }
  template <class... A>
  void call(A... a) noexcept {
    if (void* function = get(); function != nullptr)
      reinterpret_cast<void (*)(A...)>(function)(a...);
  }

 private:
  const char* name_;
  std::atomic<void*> address_ = nullptr;
};

[[gnu::hot]] void record_block(const native::Caller& caller, const void* address,
                               std::int64_t bytes, std::uint64_t allocated, std::uint64_t reserved,
                               Device device) noexcept {
  if (device.type != kCuda) return;
  const CallGuard guard;
  if (!guard.outermost() || !recording(true)) return;
  const std::uint32_t stack =
      current_stack(guard, caller, bytes > 0 ? StackUse::kBlock : StackUse::kRelease);
  const bool collected = bytes < 0 && python::in_collection();
  (void)write_event<trace::Block>(guard, [&](trace::Block& block) {
    if (collected) block.record.flags = trace::kFlagCollected;
    block.stack = stack;
    block.address = reinterpret_cast<std::uintptr_t>(address);
    block.bytes = bytes;
    block.allocated = allocated;
    block.reserved_bytes = reserved;
    block.device_type = device.type;
    block.device = device.index;
    block.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
  });
}

void record_out_of_memory(const native::Caller& caller, std::uint64_t requested,
                          std::uint64_t allocated, std::uint64_t reserved, Device device) noexcept {
  if (device.type != kCuda) return;
  const CallGuard guard;
  if (!guard.outermost() || !recording(true)) return;
  const std::uint32_t stack = current_stack(guard, caller, StackUse::kCall);
  (void)write_event<trace::FrameworkOom>(guard, [&](trace::FrameworkOom& oom) {
    oom.stack = stack;
    oom.requested = requested;
    oom.allocated = allocated;
    oom.reserved_bytes = reserved;
    oom.device_type = device.type;
    oom.device = device.index;
    oom.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
  });
}

}  // namespace
}  // namespace gpumemtrace::preload

using gpumemtrace::preload::Device;
using gpumemtrace::preload::Forward;
using gpumemtrace::preload::kUnknownTotal;
using gpumemtrace::preload::record_block;
using gpumemtrace::preload::record_out_of_memory;
using gpumemtrace::preload::native::caller_of_this_function;

#define GPUMEMTRACE_BLOCK_HOOK(symbol)                                                        \
  [[gnu::visibility("default"), gnu::hot]] void symbol(void* address, std::int64_t bytes,     \
                                                       std::size_t allocated,                 \
                                                       std::size_t reserved, Device device) { \
    static constinit Forward forward(#symbol);                                                \
    record_block(caller_of_this_function(), address, bytes, allocated, reserved, device);     \
    forward.call(address, bytes, allocated, reserved, device);                                \
  }

#define GPUMEMTRACE_OOM_HOOK(symbol)                                                           \
  [[gnu::visibility("default")]] void symbol(std::uint64_t requested, std::uint64_t allocated, \
                                             std::uint64_t reserved, Device device) {          \
    static constinit Forward forward(#symbol);                                                 \
    record_out_of_memory(caller_of_this_function(), requested, allocated, reserved, device);   \
    forward.call(requested, allocated, reserved, device);                                      \
  }

extern "C" {

// (void*, int64, size_t, size_t, Device): PyTorch 2.0 and later.
GPUMEMTRACE_BLOCK_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
// (void*, int64, int64, int64, Device): 1.8 to 1.13.
GPUMEMTRACE_BLOCK_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)

// (void*, int64, Device): 1.6 and 1.7.
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(
    void* address, std::int64_t bytes, Device device) {
  static constinit Forward forward("_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE");
  record_block(caller_of_this_function(), address, bytes, kUnknownTotal, kUnknownTotal, device);
  forward.call(address, bytes, device);
}

// (Device, int64): 1.5. It tells no address, so there is nothing to record.
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl(
    Device device, std::int64_t bytes) {
  static constinit Forward forward("_ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl");
  forward.call(device, bytes);
}

GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)
GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE)
GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)
}
