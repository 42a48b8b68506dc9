// SPDX-License-Identifier: Apache-2.0
// For comparison with the recorder: writes the numbers of an allocation record as one event of
// LTTng-UST. It makes bursts as bench_recorder does, and pauses after each, in which LTTng's
// consumer empties the buffers. bench_neighbours.py starts the LTTng session that records it.
//
//   bench_lttng [--rounds N]

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/processors.hpp"
#include "bench/program.hpp"
#include "bench/results.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"

extern "C" void bench_lttng_allocation(std::uint64_t end, std::uint64_t address,
                                       std::uint64_t bytes, std::uint64_t stream,
                                       std::uint32_t context);

namespace gpumemtrace::bench {
namespace {

constexpr std::uint32_t kBurstEvents = 8192;
constexpr std::chrono::milliseconds kPause{3};

double time_burst() {
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kBurstEvents; ++i) {
    bench_lttng_allocation(begin, 0x7f12'0000'0000 + i, std::uint64_t{512} * i, 0, 1);
  }
  return static_cast<double>(ticks() - begin) / kBurstEvents;
}

Row measure(std::size_t rounds) {
  const double ns_per_tick = measure_ns_per_tick();
  run_on({allowed_processors().front()});
  std::vector<double> bursts;
  for (std::size_t round = 0; round < rounds; ++round) {
    bursts.push_back(time_burst());
    std::this_thread::sleep_for(kPause);
  }
  Row row;
  row.what = "beside: one event of LTTng-UST";
  row.unit = "ns";
  row.measured = median(bursts) * ns_per_tick;
  row.context = {{"events", static_cast<double>(rounds) * kBurstEvents}};
  return row;
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values,
                     [](const Arguments& arguments) { print_rows({measure(arguments.rounds)}); });
}
