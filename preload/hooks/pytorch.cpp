// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator reports every block that it hands out or takes back to a function of
// libc10, whether or not a profiler runs. Our function of the same name interposes on that
// function, records the block and passes the call on.
//
// - The allocator calls our function with the allocator's mutex held: our function must not call
//   CUDA, PyTorch or Python, nor wait. It finds the real function by libc10's own symbol table.
// - The name is the mangled C++ name, which has changed with the types of the arguments; all names
//   in use from PyTorch 1.5 on are here. `Device` is two bytes in one register: type, then index.
//
// The reports do not name the block's stream, which is the thread's current stream of the device.
// Asking PyTorch for that stream may initialise CUDA, allocate or throw, each of which is forbidden
// here. So we wrap the one function that makes a stream current, and remember the stream.
//
// Sources: c10/core/Allocator.h and c10/cuda/CUDAStream.{h,cpp} of the named releases.
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/sections.hpp"
#include "preload/hooks/requested_bytes.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/function_behind.hpp"
#include "preload/loader/torch_libraries.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/call_guard.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/block_waits.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {

// The first fields of libstdc++'s std::string; we read no others.
struct Text {
  const char* data;
  std::size_t size;
};

namespace {

// The settings of PyTorch's caching allocator that a program changes while it runs are recorded,
// too. PyTorch parses allocator options with one function of libc10, both from its environment and
// from settings that the program makes later. Our function of the same name interposes on it,
// passes the call on, and remembers the text.
//
// set_per_process_memory_fraction() ends in a virtual function, which cannot be interposed; so the
// fraction is read with the virtual function getMemoryFraction(). The index of that function in an
// allocator's virtual table is found in the table of CUDAPluggableAllocator, whose
// getMemoryFraction() has a symbol.
//
// Sources: c10/core/AllocatorConfig.{h,cpp}, c10/cuda/CUDACachingAllocator.{h,cpp} and
// torch/csrc/cuda/CUDAPluggableAllocator.h of PyTorch 2.11.

constexpr std::size_t kMaxTorchDevices = 32;

// Reserved bytes of each device when its memory fraction was last asked for.
[[GPUMEMTRACE_HOT_DATA]] constinit std::atomic<std::uint64_t>
    reserved_when_asked[kMaxTorchDevices] = {};

// Asks PyTorch for the fraction of the device's memory that the process may take, and records it if
// it has changed. Called inside the allocator's lock: PyTorch's function only reads a number and
// takes no lock.
void record_memory_fraction(const CallGuard& guard, std::int8_t device) noexcept;

// Asks for the memory fraction only if the reserved bytes have changed: it matters only when the
// allocator takes memory from the driver or returns it.
[[gnu::always_inline]] inline void update_memory_fraction(const CallGuard& guard,
                                                          std::int8_t device,
                                                          std::uint64_t reserved_bytes) noexcept {
  const auto index = static_cast<std::uint8_t>(device);
  if (index >= kMaxTorchDevices) return;
  // Relaxed: PyTorch's allocator lock orders the calls for one device.
  std::atomic<std::uint64_t>& asked = reserved_when_asked[index];
  if (asked.load(std::memory_order_relaxed) == reserved_bytes) [[likely]]
    return;
  asked.store(reserved_bytes, std::memory_order_relaxed);
  record_memory_fraction(guard, device);
}

// The layout of c10::cuda::CUDACachingAllocator::CUDAAllocator: its pointer to virtual functions.
struct TorchAllocator {
  void* const* functions;
};
using GetFraction = double (*)(const TorchAllocator*, std::int8_t device);

constexpr char kPluggableTable[] =
    "_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE";
constexpr char kPluggableFraction[] =
    "_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator17getMemoryFractionEa";

// The table pointer of an object points behind the first two entries of its virtual table (Itanium
// C++ ABI: Virtual Table Layout).
constexpr std::size_t kTableBegin = 2;
constexpr std::size_t kMostFunctions = 32;

constexpr double kNotTold = 0;

class MemoryFraction {
 public:
  // The memory fraction of the device; kNotTold if PyTorch is too old to tell it, or its allocator
  // has none.
  [[nodiscard]] double of(std::int8_t device) noexcept {
    if (!looked_.exchange(true)) find_fraction_function();
    const std::size_t index = index_.load();
    if (index == 0) return kNotTold;
    const TorchAllocator* const allocator = allocator_.load()->load();
    if (allocator == nullptr) return kNotTold;
    void* const function = allocator->functions[index - kTableBegin];
    // A pluggable allocator of the program has no memory fraction: its function would throw.
    if (function == pluggable_.load()) return kNotTold;
    return reinterpret_cast<GetFraction>(function)(allocator, device);
  }

 private:
  // Finds PyTorch's allocator and the index of getMemoryFraction() in its virtual table; leaves
  // index_ 0 if this PyTorch lacks one of them.
  void find_fraction_function() noexcept {
    void* const allocator = find_torch_allocator();
    void* const named = find_symbol("libtorch_cuda.so", kPluggableFraction);
    auto* const table = static_cast<void* const*>(find_symbol("libtorch_cuda.so", kPluggableTable));
    if (allocator == nullptr || named == nullptr || table == nullptr) return;
    allocator_.store(static_cast<const std::atomic<const TorchAllocator*>*>(allocator));
    pluggable_.store(named);
    for (std::size_t i = kTableBegin; i < kTableBegin + kMostFunctions; ++i) {
      if (table[i] == named) return index_.store(i);
    }
  }

  std::atomic<bool> looked_ = false;
  std::atomic<const std::atomic<const TorchAllocator*>*> allocator_ = nullptr;
  std::atomic<void*> pluggable_ = nullptr;
  // Index of getMemoryFraction() in an allocator's virtual table; 0 = not known.
  std::atomic<std::size_t> index_ = 0;
};

constinit MemoryFraction memory_fraction;
constinit std::atomic<double> recorded_fraction[kMaxTorchDevices] = {};

void set_framework(trace::AllocatorSetting& setting, std::int8_t device) noexcept {
  setting.device_type = trace::kCudaDeviceType;
  setting.device = device;
  setting.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
}

void record_options(std::string_view text) noexcept {
  keep_allocator_options(text);
  const CallGuard guard;
  if (!guard.outermost() || !recording(/*may_start=*/false)) return;
  trace::AllocatorSetting setting;
  setting.option = trace::AllocatorOption::kText;
  set_framework(setting, -1);
  (void)write_record(setting, last_allocator_options());
}

[[gnu::noinline, gnu::cold]] void record_memory_fraction(const CallGuard& guard,
                                                         std::int8_t device) noexcept {
  const double fraction = memory_fraction.of(device);
  std::atomic<double>& recorded = recorded_fraction[device];
  // Relaxed: PyTorch's allocator lock orders the calls for one device.
  if (fraction == kNotTold || fraction == recorded.load(std::memory_order_relaxed)) return;
  const bool written =
      write_event<trace::AllocatorSetting>(guard, [&](trace::AllocatorSetting& setting) {
        setting.option = trace::AllocatorOption::kMemoryFraction;
        setting.value = std::bit_cast<std::uint64_t>(fraction);
        set_framework(setting, device);
      });
  if (written) recorded.store(fraction, std::memory_order_relaxed);
}

constexpr std::uint64_t kUnknownTotal = ~std::uint64_t{0};

struct Device {
  std::int8_t type;
  std::int8_t index;
};

// The calling thread's current stream of each device, by PyTorch's number: 0, the default stream,
// until another is made current. For devices beyond this array the stream is not known.
constinit thread_local std::int64_t current_streams[kMaxTorchDevices] [[gnu::tls_model(
    "initial-exec")]] = {};

// The stream of a block is recorded only for PyTorch 2.0 and later, recognized by the unsigned type
// of the totals that it reports. Versions before 1.12 passed a stream's number in other registers.
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
  if (!guard.outermost() || !recording(/*may_start=*/true)) return;
  constexpr StackUse kUse =
      kStreams == Streams::kRemembered ? StackUse::kTorchBlock : StackUse::kBlock;
  const trace::StackId stack = current_stack(guard, caller, bytes > 0 ? kUse : StackUse::kRelease);
  const bool collected = bytes < 0 && python::in_garbage_collection();
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
  if (!guard.outermost() || !recording(/*may_start=*/true)) return;
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

using gpumemtrace::preload::FunctionBehind;
using gpumemtrace::preload::record_options;
using gpumemtrace::preload::Text;

#define GPUMEMTRACE_PARSE_OPTIONS                                            \
  "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__" \
  "cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

// Wraps c10::CachingAllocator::AcceleratorAllocatorConfig::parseArgs(const std::string&), which
// throws if it rejects the text. Our function has nothing to clean up in that case.
[[gnu::visibility("default")]] void parse_options(void* config, const Text& text) __asm__(
    GPUMEMTRACE_PARSE_OPTIONS);
void parse_options(void* config, const Text& text) {
  static constinit FunctionBehind behind(GPUMEMTRACE_PARSE_OPTIONS);
  if (void* const real = behind.in_libc10(); real != nullptr)
    reinterpret_cast<void (*)(void*, const Text&)>(real)(config, text);
  record_options({text.data, text.size});
}

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

// Arguments (void*, int64, size_t, size_t, Device): the report of PyTorch 2.0 and later.
GPUMEMTRACE_BLOCK_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, Streams::kRemembered,
                       [[GPUMEMTRACE_HOT_DATA]])
// Arguments (void*, int64, int64, int64, Device): the report of PyTorch 1.8 to 1.13.
GPUMEMTRACE_BLOCK_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, Streams::kUnknown, )

// Arguments (void*, int64, Device): the report of PyTorch 1.6 and 1.7.
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(
    void* address, std::int64_t bytes, Device device) {
  static constinit FunctionBehind behind("_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE");
  record_block<Streams::kUnknown>(caller_of_this_function(), address, bytes, kUnknownTotal,
                                  kUnknownTotal, device);
  pass_on(behind, address, bytes, device);
}

// Arguments (Device, int64): the report of PyTorch 1.5. It passes no address of the block, so there
// is nothing to record.
[[gnu::visibility("default")]] void _ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl(
    Device device, std::int64_t bytes) {
  static constinit FunctionBehind behind("_ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl");
  pass_on(behind, device, bytes);
}

GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)
GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE)
GPUMEMTRACE_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)

// Wraps c10::cuda::setCurrentCUDAStream(CUDAStream). The device comes in one register, the stream's
// number in the next; before PyTorch 1.12 both came in the first. The real function may throw; our
// function has nothing to clean up in that case.
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
