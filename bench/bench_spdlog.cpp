// SPDX-License-Identifier: Apache-2.0
// For comparison with the recorder: writes the six numbers of an allocation record as one line of
// spdlog's asynchronous logger, with its file on the same disk. It makes bursts as bench_recorder
// does, and pauses after each until the queue is empty.
//
//   bench_spdlog [--folder DIR] [--rounds N]

#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/processors.hpp"
#include "bench/program.hpp"
#include "bench/results.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr std::uint32_t kBurstEvents = 8192;

double time_burst(spdlog::logger& logger) {
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kBurstEvents; ++i) {
    logger.info("{} {} {} {} {} {}", ticks(), 1, 0x7f12'0000'0000 + i, 512 * i, 0, 1);
  }
  return static_cast<double>(ticks() - begin) / kBurstEvents;
}

Row measure(const std::filesystem::path& parent, std::size_t rounds) {
  const tests::TemporaryFolder folder(parent);
  const double ns_per_tick = measure_ns_per_tick();
  const std::vector<int> processors = allowed_processors();
  run_on({processors.back()});
  const auto queue = std::make_shared<spdlog::details::thread_pool>(2 * kBurstEvents, 1);
  run_on({processors.front()});
  const auto sink =
      std::make_shared<spdlog::sinks::basic_file_sink_mt>((folder.path() / "log").string());
  const auto logger = std::make_shared<spdlog::async_logger>("bench", sink, queue,
                                                             spdlog::async_overflow_policy::block);
  std::vector<double> bursts;
  for (std::size_t round = 0; round < rounds; ++round) {
    while (queue->queue_size() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bursts.push_back(time_burst(*logger));
  }
  Row row;
  row.what = "beside: one line of spdlog's asynchronous logger";
  row.unit = "ns";
  row.measured = median(bursts) * ns_per_tick;
  return row;
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values, [](const Arguments& arguments) {
    say("  bursts of lines");
    print_rows({measure(arguments.folder, arguments.rounds)});
  });
}
