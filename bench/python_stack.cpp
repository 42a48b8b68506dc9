// SPDX-License-Identifier: Apache-2.0
// Called by bench_python_stack.py through ctypes: times blocks of PyTorch's allocator under the
// Python frames of the calling thread.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "bench/noop_calls.hpp"
#include "bench/other_work.hpp"
#include "bench/ring_view.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr std::uint32_t kBurstBlocks = 8192;

constexpr std::int64_t kBlockBytes = 512;

void report_block(const Calls& calls, std::int64_t bytes) {
  auto* const block = reinterpret_cast<void*>(std::uintptr_t{0x7f00'0000'0000});
  calls.report_block(block, bytes, 512, 1 << 20, C10Device{});
}

double time_burst(const Calls& calls, std::int64_t bytes) {
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kBurstBlocks; ++i) report_block(calls, bytes);
  return static_cast<double>(ticks() - begin) / kBurstBlocks;
}

// Median ticks of single blocks, each after other work.
double time_cold(const Calls& calls, std::int64_t bytes) {
  constexpr int kBlocks = 1000;
  std::vector<double> times;
  OtherWork work;
  for (int i = 0; i < kBlocks; ++i) {
    work.run();
    const std::uint64_t begin = ticks();
    report_block(calls, bytes);
    times.push_back(static_cast<double>(ticks() - begin));
  }
  return median(times);
}

double measure(const char* ring_path, std::uint32_t rounds, std::int64_t bytes, bool cold) {
  const CallForms calls = load_calls();
  report_block(calls.wrapped, bytes);  // begins the recording, which makes the ring file
  const RingView ring(ring_path);
  const double ns_per_tick = measure_ns_per_tick();
  if (cold) return time_cold(calls.wrapped, bytes) * ns_per_tick;
  std::vector<double> times;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    ring.wait_until_packed();
    times.push_back(time_burst(calls.wrapped, bytes));
  }
  return median(times) * ns_per_tick;
}

}  // namespace
}  // namespace gpumemtrace::bench

// Nanoseconds of one block that is allocated, or freed if `frees` is not 0: the median over the
// rounds or, if `cold`, over single blocks between other work; negative if something is missing.
extern "C" [[gnu::visibility("default")]] double bench_blocks(const char* ring_path,
                                                              std::uint32_t rounds,
                                                              std::int32_t frees, bool cold) {
  using gpumemtrace::bench::kBlockBytes;
  try {
    const std::int64_t bytes = frees != 0 ? -kBlockBytes : kBlockBytes;
    return gpumemtrace::bench::measure(ring_path, rounds, bytes, cold);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_python_stack: %s\n", error.what());
    return -1;
  }
}
