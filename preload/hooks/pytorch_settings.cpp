// SPDX-License-Identifier: Apache-2.0
// PyTorch parses allocator options with one function of libc10, both from its environment and from
// settings that the program makes later. Ours stands before it, passes the call on, and remembers
// the text.
//
// set_per_process_memory_fraction() ends in a virtual function that nothing can stand before; so
// the fraction is read with another one, getMemoryFraction(). Its index among an allocator's
// virtual functions comes from the table of CUDAPluggableAllocator, which has that function under a
// name.
//
// Sources: c10/core/AllocatorConfig.{h,cpp}, c10/cuda/CUDACachingAllocator.{h,cpp} and
// torch/csrc/cuda/CUDAPluggableAllocator.h of PyTorch 2.11.

#include "preload/hooks/pytorch_settings.hpp"

#include <bit>
#include <string_view>

#include "preload/base/hot_data.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/function_behind.hpp"
#include "preload/loader/torch_libraries.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"

namespace gpumemtrace::preload {

[[GPUMEMTRACE_HOT_DATA]] constinit std::atomic<std::uint64_t>
    reserved_when_asked[kMaxTorchDevices] = {};

// The first fields of libstdc++'s std::string, which are all that is read.
struct Text {
  const char* data;
  std::size_t size;
};

namespace {

// c10::cuda::CUDACachingAllocator::CUDAAllocator.
struct TorchAllocator {
  void* const* functions;
};
using GetFraction = double (*)(const TorchAllocator*, std::int8_t device);

constexpr char kPluggableTable[] =
    "_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE";
constexpr char kPluggableFraction[] =
    "_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator17getMemoryFractionEa";

// An object's pointer leads past the first entries of its table (Itanium C++ ABI: Virtual Table
// Layout).
constexpr std::size_t kTableBegin = 2;
constexpr std::size_t kMostFunctions = 32;

constexpr double kNotTold = 0;

class MemoryFraction {
 public:
  // kNotTold for an older PyTorch.
  [[nodiscard]] double of(std::int8_t device) noexcept {
    if (!looked_.exchange(true)) look();
    const std::size_t index = index_.load();
    if (index == 0) return kNotTold;
    const TorchAllocator* const allocator = allocator_.load()->load();
    if (allocator == nullptr) return kNotTold;
    void* const function = allocator->functions[index - kTableBegin];
    // The program's own allocator has no such limit, and would throw.
    if (function == pluggable_.load()) return kNotTold;
    return reinterpret_cast<GetFraction>(function)(allocator, device);
  }

 private:
  void look() noexcept {
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
  std::atomic<std::size_t> index_ = 0;  // in a table; 0 = not known
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
  if (!guard.outermost() || !recording(false)) return;
  trace::AllocatorSetting setting;
  setting.option = trace::AllocatorOption::kText;
  set_framework(setting, -1);
  (void)write_record(setting, last_allocator_options());
}

}  // namespace

[[gnu::noinline, gnu::cold]] void record_memory_fraction(const CallGuard& guard,
                                                         std::int8_t device) noexcept {
  const double fraction = memory_fraction.of(device);
  std::atomic<double>& recorded = recorded_fraction[device];
  // Relaxed: the allocator's lock orders the calls of one device.
  if (fraction == kNotTold || fraction == recorded.load(std::memory_order_relaxed)) return;
  const bool written =
      write_event<trace::AllocatorSetting>(guard, [&](trace::AllocatorSetting& setting) {
        setting.option = trace::AllocatorOption::kMemoryFraction;
        setting.value = std::bit_cast<std::uint64_t>(fraction);
        set_framework(setting, device);
      });
  if (written) recorded.store(fraction, std::memory_order_relaxed);
}

}  // namespace gpumemtrace::preload

using gpumemtrace::preload::FunctionBehind;
using gpumemtrace::preload::record_options;
using gpumemtrace::preload::Text;

#define GPUMEMTRACE_PARSE_OPTIONS                                            \
  "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__" \
  "cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

// c10::CachingAllocator::AcceleratorAllocatorConfig::parseArgs(const std::string&). It throws if it
// rejects the text; the exception passes no frame of ours.
[[gnu::visibility("default")]] void parse_options(void* config, const Text& text) __asm__(
    GPUMEMTRACE_PARSE_OPTIONS);
void parse_options(void* config, const Text& text) {
  static constinit FunctionBehind behind(GPUMEMTRACE_PARSE_OPTIONS);
  if (void* const real = behind.in_libc10(); real != nullptr)
    reinterpret_cast<void (*)(void*, const Text&)>(real)(config, text);
  record_options({text.data, text.size});
}
