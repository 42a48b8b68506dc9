// SPDX-License-Identifier: Apache-2.0
// The settings and the events of PyTorch's allocator, without its blocks. The replacements of
// libc10.so, libc10_cuda.so and libtorch_cuda.so are all built from this file.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace c10::CachingAllocator {

struct [[gnu::visibility("default")]] AcceleratorAllocatorConfig {
  void parseArgs(const std::string& text);
  std::string last;
};
// Throws for unknown options, as PyTorch's function does.
void AcceleratorAllocatorConfig::parseArgs(const std::string& text) {
  if (text.find("unknown") != std::string::npos) throw std::invalid_argument(text);
  last = text;
}

}  // namespace c10::CachingAllocator

namespace c10::cuda::CUDACachingAllocator {

struct CUDAAllocator {
  virtual ~CUDAAllocator() = default;
  virtual void empty_cache() {}
  virtual double getMemoryFraction(std::int8_t device) = 0;
};
struct Native : CUDAAllocator {
  double getMemoryFraction(std::int8_t device) override { return fractions[device]; }
  double fractions[2] = {1, 1};
};
[[gnu::visibility("default")]] std::atomic<CUDAAllocator*> allocator = nullptr;

}  // namespace c10::cuda::CUDACachingAllocator

namespace torch::cuda::CUDAPluggableAllocator {

struct [[gnu::visibility("default")]] CUDAPluggableAllocator
    : c10::cuda::CUDACachingAllocator::CUDAAllocator {
  double getMemoryFraction(std::int8_t device) override;
};
double CUDAPluggableAllocator::getMemoryFraction(std::int8_t) { std::abort(); }

}  // namespace torch::cuda::CUDAPluggableAllocator

namespace {

c10::CachingAllocator::AcceleratorAllocatorConfig config;
c10::cuda::CUDACachingAllocator::Native native;
torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator pluggable;

}  // namespace

extern "C" {
// Returns 0 if the allocator rejects the text, else 1.
[[gnu::visibility("default")]] int set_options(const char* text) {
  try {
    config.parseArgs(text);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return config.last == text ? 1 : 0;
}
[[gnu::visibility("default")]] void set_memory_fraction(double fraction, int device) {
  native.fractions[device] = fraction;
  c10::cuda::CUDACachingAllocator::allocator = &native;
}
// Creates an event by the driver's function `create`, called from this library; null if it fails.
[[gnu::visibility("default")]] void* create_event(int (*create)(void**, unsigned int)) {
  void* event = nullptr;
  return create(&event, 2) == 0 ? event : nullptr;
}
[[gnu::visibility("default")]] void* pluggable_allocator() { return &pluggable; }
[[gnu::visibility("default")]] void use_allocator(void* used) {
  c10::cuda::CUDACachingAllocator::allocator =
      static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator*>(used);
}
}
