// SPDX-License-Identifier: Apache-2.0
// For comparison with the recorder: malloc and free from 20 frames deep, measured with and without
// heaptrack, in which bench_neighbours.py runs it.
//
//   bench_malloc [--rounds N] --output FILE
//
// Writes the nanoseconds of one pair to FILE, because heaptrack shares the standard output.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "bench/deep_stack.hpp"
#include "bench/processors.hpp"
#include "bench/program.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr std::uint32_t kBurstPairs = 4096;
constexpr std::size_t kFrames = 20;

void time_burst(void* ticks_each) {
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kBurstPairs; ++i) {
    void* memory = std::malloc(512);
    keep(memory);
    std::free(memory);
  }
  *static_cast<double*>(ticks_each) = static_cast<double>(ticks() - begin) / kBurstPairs;
}

double measure_ns(std::size_t rounds) {
  const double ns_per_tick = measure_ns_per_tick();
  run_on({allowed_processors().front()});
  const std::size_t levels = levels_for(kFrames);
  std::vector<double> bursts(rounds);
  for (double& burst : bursts) run_below(levels, {time_burst, &burst});
  return median(bursts) * ns_per_tick;
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values, [](const Arguments& arguments) {
    std::ofstream file(arguments.output);
    file << measure_ns(arguments.rounds) << '\n';
    if (!file.flush()) {
      throw std::runtime_error("cannot write --output " + arguments.output.string());
    }
  });
}
