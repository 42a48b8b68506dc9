// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a preloaded library for a process that never uses CUDA: the time from exec
// of a tiny program to its end, with and without LD_PRELOAD in turns.
//
//   bench_exec [PAIRS]

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/build_folder.hpp"
#include "bench/program.hpp"
#include "bench/results.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr char kProgram[] = "/bin/true";

// Runs the program to its end with this LD_PRELOAD; returns the ticks that this took.
double time_program(const std::string& preloaded) {
  std::string variable = "LD_PRELOAD=" + preloaded;
  std::array<char*, 2> environment = {preloaded.empty() ? nullptr : variable.data(), nullptr};
  std::array<char*, 2> arguments = {const_cast<char*>(kProgram), nullptr};
  const std::uint64_t begin = ticks();
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, kProgram, nullptr, nullptr, arguments.data(), environment.data()) != 0 ||
      waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error(std::string(kProgram) + " could not be run");
  }
  return static_cast<double>(ticks() - begin);
}

struct Difference {
  double median_us = 0;
  double low_us = 0;  // 95 % confidence interval of the median
  double high_us = 0;
  double alone_us = 0;
};

Difference compare(const std::filesystem::path& library, std::size_t pairs, double ns_per_tick) {
  say("  " + library.filename().string());
  if (!std::filesystem::exists(library)) {
    throw std::runtime_error(library.string() + " is missing: build everything first.");
  }
  std::vector<double> differences;
  std::vector<double> alone;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const bool preloaded_first = pair % 2 == 0;
    const double first = time_program(preloaded_first ? library.string() : "");
    const double second = time_program(preloaded_first ? "" : library.string());
    differences.push_back((preloaded_first ? first - second : second - first) * ns_per_tick / 1e3);
    alone.push_back((preloaded_first ? second : first) * ns_per_tick / 1e3);
  }
  // The interval's bounds are order statistics around the median: the number of values below the
  // median is binomial, with a standard deviation of half the square root of the number of pairs.
  const double spread = 0.98 / std::sqrt(static_cast<double>(pairs));
  return {median(differences), quantile(differences, 0.5 - spread),
          quantile(differences, 0.5 + spread), median(alone)};
}

std::vector<Row> measure(std::size_t pairs) {
  const double ns_per_tick = measure_ns_per_tick();
  const Difference ours = compare(preload_path(), pairs, ns_per_tick);
  const Difference empty = compare(bench_folder() / "libbench_empty_c.so", pairs, ns_per_tick);
  const Difference runtime = compare(bench_folder() / "libbench_empty_cpp.so", pairs, ns_per_tick);
  Row row;
  row.what = "a process that never uses CUDA: added to an exec of /bin/true";
  row.unit = "us";
  row.measured = ours.median_us;
  row.at_most = 60;
  row.beside = "an empty library that needs libstdc++: " +
               std::to_string(static_cast<int>(runtime.median_us + 0.5)) +
               " us; an empty one: " + std::to_string(static_cast<int>(empty.median_us + 0.5)) +
               " us (both in this run)";
  row.context = {{"low_95_us", ours.low_us},
                 {"high_95_us", ours.high_us},
                 {"empty_library_us", empty.median_us},
                 {"empty_library_with_libstdcxx_us", runtime.median_us},
                 {"without_preload_us", ours.alone_us},
                 {"pairs", static_cast<double>(pairs)}};
  return {row};
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values, [](const Arguments& arguments) {
    const std::vector<std::string>& pairs = arguments.others;
    print_rows(measure(pairs.empty() ? 2000 : std::stoul(pairs.front())));
  });
}
