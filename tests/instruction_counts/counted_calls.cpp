// SPDX-License-Identifier: Apache-2.0
// Calls of one kind, made in a function that callgrind counts by its name:
//   counted_calls KIND COUNT
// The same as a library, for programs in Python: counted_calls(KIND, COUNT).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>

#include "bench/noop_calls.hpp"

namespace {

using namespace gpumemtrace::bench;

constexpr std::size_t kBytes = 4096;
// Enough calls to fill a thread's first chunks of the ring, which are the smallest ones.
constexpr std::uint32_t kWarmUpCalls = 20'000;

void make_calls(const Calls& calls, const char* kind, std::uint32_t count) {
  gpumemtrace::cuda_abi::CUdeviceptr address = 0x7f00'0000'0000;
  auto* const block = reinterpret_cast<void*>(std::uintptr_t{0x7f00'0000'0000});
  if (std::strcmp(kind, "allocation_and_free") == 0) {
    for (std::uint32_t i = 0; i < count; ++i) {
      calls.allocate(&address, kBytes);
      calls.free(address);
    }
  } else if (std::strcmp(kind, "async_allocation_and_free") == 0) {
    for (std::uint32_t i = 0; i < count; ++i) {
      calls.allocate_async(&address, kBytes, nullptr);
      calls.free_async(address, nullptr);
    }
  } else if (std::strcmp(kind, "copy") == 0) {
    for (std::uint32_t i = 0; i < count; ++i) calls.copy_async(address, address, kBytes, nullptr);
  } else if (std::strcmp(kind, "host_tensor") == 0 || std::strcmp(kind, "tensor") == 0) {
    constexpr std::int64_t kSizes[] = {8, 128, 64, 64};
    constexpr std::uint64_t kHostKey = 1;
    constexpr std::uint64_t kCudaKey = 2;
    constexpr std::uint64_t kFloat = 6;
    const std::uint64_t keys = kind[0] == 'h' ? kHostKey : kCudaKey;
    for (std::uint32_t i = 0; i < count; ++i) {
      calls.make_tensor({kSizes, std::size(kSizes)}, nullptr, keys, kFloat, 0);
    }
  } else {
    for (std::uint32_t i = 0; i < count; ++i) {
      calls.report_block(block, kBytes, kBytes, 1 << 20, C10Device{});
    }
  }
}

// A stack that is deep enough to be worth counting.
[[gnu::noinline]] void call_below(int levels, const Calls& calls, const char* kind,
                                  std::uint32_t count,
                                  void (*make)(const Calls&, const char*, std::uint32_t)) {
  if (levels == 0) {
    make(calls, kind, count);
  } else {
    call_below(levels - 1, calls, kind, count, make);
  }
  __asm__ volatile("" : : : "memory");  // prevents a tail call, which would drop the frame
}

}  // namespace

// The function that --toggle-collect names.
extern "C" [[gnu::visibility("default"), gnu::noinline]] void counted_part(const Calls& calls,
                                                                           const char* kind,
                                                                           std::uint32_t count) {
  make_calls(calls, kind, count);
}

extern "C" [[gnu::visibility("default")]] int counted_calls(const char* kind, std::uint32_t count) {
  try {
    const CallForms forms = load_calls();
    forms.wrapped.set_context(
        reinterpret_cast<gpumemtrace::cuda_abi::CUcontext>(std::uintptr_t{1}));
    constexpr int kLevels = 20;
    call_below(kLevels, forms.wrapped, kind, kWarmUpCalls, make_calls);
    call_below(kLevels, forms.wrapped, kind, count,
               [](const Calls& calls, const char* name, std::uint32_t number) {
                 counted_part(calls, name, number);
               });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "counted_calls: %s\n", error.what());
    return 1;
  }
}

#ifndef GPUMEMTRACE_COUNTED_LIBRARY
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return counted_calls(argv[1], static_cast<std::uint32_t>(std::atoi(argv[2])));
}
#endif
