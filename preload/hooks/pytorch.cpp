// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator reports every block that it hands out or takes back to a function of
// libc10, whether or not a profiler runs. Ours stands before it under the same name, records the
// block and passes the call on.
//
// - Called inside the allocator's mutex: no call of CUDA, PyTorch or Python here, nothing that
//   waits. The real function is found through libc10's own symbol table.
// - The name is the mangled C++ name, which has changed with the types of the arguments; all forms
//   in use from PyTorch 1.5 on are here. `Device` is two bytes in one register: type, then index.
//
// The reports do not name the block's stream. It is the thread's current stream of the device,
// which PyTorch could be asked for; but its answer may initialise CUDA, allocate or throw, each of
// which is forbidden here. So we wrap the one function that makes a stream current, and remember
// the stream.
//
// Sources: c10/core/Allocator.h and c10/cuda/CUDAStream.{h,cpp} of the named releases.

#include <cstddef>
#include <cstdint>

#include "preload/base/hot_data.hpp"
#include "preload/hooks/pytorch_settings.hpp"
#include "preload/hooks/requested_bytes.hpp"
#include "preload/loader/function_behind.hpp"
#include "preload/python/python_collections.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/block_waits.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kUnknownTotal = ~std::uint64_t{0};

struct Device {
  std::int8_t type;
  std::int8_t index;
};

// The thread's current stream of each device, as PyTorch numbers them: 0, its default stream, until
// another is made current. For devices beyond these the stream is not known.
constinit thread_local std::int64_t current_streams[kMaxTorchDevices] [[gnu::tls_model(
    "initial-exec")]] = {};

// kRemembered for PyTorch 2.0 and later, which report blocks with unsigned totals; before 1.12 a
// stream's number was passed in other registers.
enum class Streams { kUnknown, kRemembered };

template <class... A>
void pass_on(FunctionBehind& behind, A... a) noexcept {
  if (void* function = behind.in_libc10(); function != nullptr)
    reinterpret_cast<void (*)(A...)>(function)(a...);
}

template <Streams kStreams>
[[gnu::hot]] void record_block(const native::Caller& caller, const void* address,
                               std::int64_t bytes, std::uint64_t allocated, std::uint64_t reserved,
                               Device device) noexcept {
  if (device.type != trace::kCudaDeviceType) return;
  const CallGuard guard;
  if (!guard.outermost() || !recording(true)) return;
  constexpr StackUse kUse =
      kStreams == Streams::kRemembered ? StackUse::kTorchBlock : StackUse::kBlock;
  const trace::StackId stack = current_stack(guard, caller, bytes > 0 ? kUse : StackUse::kRelease);
  const bool collected = bytes < 0 && python::in_collection();
  if constexpr (kStreams == Streams::kRemembered) {
    if (bytes > 0) {
      block_waits::block_handed_out();
      update_memory_fraction(guard, device.index, reserved);
    } else {
      block_waits::block_taken_back(address);
    }
  }
  (void)write_event<trace::Block>(guard, [&](trace::Block& block) {
    std::uint16_t flags = collected ? trace::kFlagCollected : 0;
    if constexpr (kStreams == Streams::kRemembered) {
      const auto index = static_cast<std::uint8_t>(device.index);
      if (index < kMaxTorchDevices) {
        flags |= trace::kFlagStream;
        block.stream = current_streams[index];
      }
    }
    block.record.flags = flags;
    block.stack = stack;
    block.address = reinterpret_cast<std::uintptr_t>(address);
    block.bytes = bytes;
    if constexpr (kStreams == Streams::kRemembered) {
      if (bytes > 0) block.requested = take_requested_bytes(static_cast<std::uint64_t>(bytes));
    }
    block.allocated = allocated;
    block.reserved_bytes = reserved;
    block.device_type = device.type;
    block.device = device.index;
    block.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
  });
}

void record_out_of_memory(const native::Caller& caller, std::uint64_t requested,
                          std::uint64_t allocated, std::uint64_t reserved, Device device) noexcept {
  if (device.type != trace::kCudaDeviceType) return;
  const CallGuard guard;
  if (!guard.outermost() || !recording(true)) return;
  const trace::StackId stack = current_stack(guard, caller, StackUse::kCall);
  if (static_cast<std::uint8_t>(device.index) < kMaxTorchDevices) {
    record_memory_fraction(guard, device.index);
  }
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

using gpumemtrace::preload::current_streams;
using gpumemtrace::preload::Device;
using gpumemtrace::preload::FunctionBehind;
using gpumemtrace::preload::kMaxTorchDevices;
using gpumemtrace::preload::kUnknownTotal;
using gpumemtrace::preload::pass_on;
using gpumemtrace::preload::record_block;
using gpumemtrace::preload::record_out_of_memory;
using gpumemtrace::preload::Streams;
using gpumemtrace::preload::native::caller_of_this_function;
using gpumemtrace::trace::kCudaDeviceType;

#define GPUMEMTRACE_BLOCK_HOOK(symbol, streams, data)                                              \
  [[gnu::visibility("default"), gnu::hot]] void symbol(void* address, std::int64_t bytes,          \
                                                       std::size_t allocated,                      \
                                                       std::size_t reserved, Device device) {      \
    data static constinit FunctionBehind behind(#symbol);                                          \
    record_block<streams>(caller_of_this_function(), address, bytes, allocated, reserved, device); \
    pass_on(behind, address, bytes, allocated, reserved, device);                                  \
  }

#define GPUMEMTRACE_OOM_HOOK(symbol)                                                           \
  [[gnu::visibility("default")]] void symbol(std::uint64_t requested, std::uint64_t allocated, \
                                             std::uint64_t reserved, Device device) {          \
    static constinit FunctionBehind behind(#symbol);                                           \
    record_out_of_memory(caller_of_this_function(), requested, allocated, reserved, device);   \
    pass_on(behind, requested, allocated, reserved, device);                                   \
  }

extern "C" {

// (void*, int64, size_t, size_t, Device): PyTorch 2.0 and later.
GPUMEMTRACE_BLOCK_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, Streams::kRemembered,
                       [[GPUMEMTRACE_HOT_DATA]])
// (void*, int64, int64, int64, Device): 1.8 to 1.13.
GPUMEMTRACE_BLOCK_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, Streams::kUnknown, )

// (void*, int64, Device): 1.6 and 1.7.
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(
    void* address, std::int64_t bytes, Device device) {
  static constinit FunctionBehind behind("_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE");
  record_block<Streams::kUnknown>(caller_of_this_function(), address, bytes, kUnknownTotal,
                                  kUnknownTotal, device);
  pass_on(behind, address, bytes, device);
}

// (Device, int64): 1.5. It passes no address, so there is nothing to record.
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl(
    Device device, std::int64_t bytes) {
  static constinit FunctionBehind behind("_ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl");
  pass_on(behind, device, bytes);
}

GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)
GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE)
GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)

// c10::cuda::setCurrentCUDAStream(CUDAStream): the device in one register, the number in the next;
// before 1.12 both in the first. It may throw; the exception passes no frame of ours.
[[gnu::visibility("default")]] void _ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE(
    std::uint64_t device, std::uint64_t stream) {
  static constinit FunctionBehind behind("_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE");
  const std::size_t index = device >> 8 & 0xff;
  if ((device & 0xff) == kCudaDeviceType && index < kMaxTorchDevices)
    current_streams[index] = static_cast<std::int64_t>(stream);
  void* const real = behind.anywhere(
      reinterpret_cast<const void*>(&_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE));
  if (real != nullptr)
    reinterpret_cast<void (*)(std::uint64_t, std::uint64_t)>(real)(device, stream);
}
}
