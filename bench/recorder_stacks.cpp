// SPDX-License-Identifier: Apache-2.0
#include "bench/recorder_stacks.hpp"

#include <algorithm>
#include <barrier>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "bench/deep_stack.hpp"
#include "bench/other_work.hpp"
#include "bench/processors.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr std::uint32_t kBurstBlocks = 4096;
constexpr std::size_t kFrames = 20;

void* const kBlock = reinterpret_cast<void*>(std::uintptr_t{0x7f00'0000'0000});

// Measures the ticks per block in a burst; the sign of `bytes` decides if a block gets a stack.
struct Burst {
  const Calls* calls;
  std::int64_t bytes;
  double ticks_each = 0;
};
void run_burst(void* argument) {
  Burst& burst = *static_cast<Burst*>(argument);
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kBurstBlocks; ++i) {
    burst.calls->report_block(kBlock, burst.bytes, 512, 1 << 20, C10Device{});
  }
  burst.ticks_each = static_cast<double>(ticks() - begin) / kBurstBlocks;
}

double time_blocks(const Calls& calls, std::size_t levels, std::int64_t bytes) {
  Burst burst{&calls, bytes};
  run_below(levels, {run_burst, &burst});
  return burst.ticks_each;
}

struct StackCost {
  double added_ticks;  // ticks that the stack adds
  double bare_ticks;   // ticks of a block without a stack
};

// Returns a value for each thread: the medians over the rounds.
std::vector<StackCost> measure_together(const RecorderBench& bench, std::size_t threads) {
  std::vector<StackCost> costs(threads);
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads));
  const auto run = [&](std::size_t index) {
    std::vector<double> added;
    std::vector<double> bare;
    run_on({bench.processors[index]});
    const std::size_t levels = levels_for(kFrames);
    for (std::size_t round = 0; round < bench.rounds; ++round) {
      if (index == 0) bench.ring.wait_until_packed();
      barrier.arrive_and_wait();
      const double without = time_blocks(bench.calls.wrapped, levels, -512);
      if (index == 0) bench.ring.wait_until_packed();
      barrier.arrive_and_wait();
      added.push_back(time_blocks(bench.calls.wrapped, levels, 512) - without);
      bare.push_back(without);
      barrier.arrive_and_wait();
    }
    costs[index] = {median(added), median(bare)};
  };
  std::vector<std::thread> others;
  for (std::size_t index = 1; index < threads; ++index) others.emplace_back(run, index);
  run(0);
  for (std::thread& thread : others) thread.join();
  return costs;
}

double median_added_ns(const RecorderBench& bench, std::size_t threads) {
  std::vector<double> added;
  for (const StackCost& cost : measure_together(bench, threads)) added.push_back(cost.added_ticks);
  return median(added) * bench.ns_per_tick;
}

Row measure_known(const RecorderBench& bench) {
  say("  native stack of 20 frames");
  Row row;
  row.what = "a native stack of 20 frames that was seen before";
  row.unit = "ns added to a block";
  row.at_most = 250;
  row.beside = "glibc's backtrace: see context";
  const StackCost cost = measure_together(bench, 1).front();
  row.measured = cost.added_ticks * bench.ns_per_tick;
  row.context["block_without_stack_ns"] = cost.bare_ticks * bench.ns_per_tick;
  const std::size_t threads = bench.processors.size();
  row.context["threads_" + std::to_string(threads) + "_added_ns"] = median_added_ns(bench, threads);
  double backtrace_ticks = 0;
  run_below(levels_for(kFrames), {[](void* out) {
                                    const std::uint64_t begin = ticks();
                                    std::size_t sum = 0;
                                    for (int i = 0; i < 1000; ++i) sum += frames_here();
                                    keep(sum);
                                    *static_cast<double*>(out) =
                                        static_cast<double>(ticks() - begin) / 1000;
                                  },
                                  &backtrace_ticks});
  row.context["glibc_backtrace_ns"] = backtrace_ticks * bench.ns_per_tick;
  return row;
}

// Times of single blocks after other work, with and without a stack in turn.
struct ColdBlocks {
  const Calls* calls;
  std::vector<double> with;
  std::vector<double> without;
};
void time_cold_blocks(void* argument) {
  constexpr int kBlocks = 2000;
  ColdBlocks& blocks = *static_cast<ColdBlocks*>(argument);
  OtherWork work;
  for (int i = 0; i < kBlocks; ++i) {
    const bool with_stack = i % 2 == 0;
    work.run();
    const std::uint64_t begin = ticks();
    blocks.calls->report_block(kBlock, with_stack ? 512 : -512, 512, 1 << 20, C10Device{});
    (with_stack ? blocks.with : blocks.without).push_back(static_cast<double>(ticks() - begin));
  }
}

Row measure_cold(const RecorderBench& bench) {
  say("  native stack of 20 frames between other work");
  ColdBlocks blocks{&bench.calls.wrapped, {}, {}};
  run_below(levels_for(kFrames), {time_cold_blocks, &blocks});
  Row row;
  row.what = "the same between other work, which takes its place in the caches";
  row.unit = "ns added to a block";
  row.measured = (median(blocks.with) - median(blocks.without)) * bench.ns_per_tick;
  row.context["block_without_stack_ns"] = median(blocks.without) * bench.ns_per_tick;
  return row;
}

// Times of allocated blocks (with a stack) and of freed blocks (without), each after other work.
struct BlocksInOrder {
  const Calls* calls;
  OtherWork work;
  std::vector<double> with;
  std::vector<double> without;
};
void time_blocks_in_order(void* argument) {
  BlocksInOrder& blocks = *static_cast<BlocksInOrder*>(argument);
  for (const bool with_stack : {true, false}) {
    blocks.work.run();
    const std::uint64_t begin = ticks();
    blocks.calls->report_block(kBlock, with_stack ? 512 : -512, 512, 1 << 20, C10Device{});
    (with_stack ? blocks.with : blocks.without).push_back(static_cast<double>(ticks() - begin));
  }
}

// The mean of the lowest 99 %, which leaves out interruptions by the machine.
double mean_of_most(std::vector<double> times) {
  constexpr double kMost = 0.99;
  std::sort(times.begin(), times.end());
  times.resize(static_cast<std::size_t>(kMost * static_cast<double>(times.size())));
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

// Stacks as in a backward pass: a step of 280 blocks with 40 call stacks, 20 to 60 frames deep, is
// repeated.
Row measure_in_order(const RecorderBench& bench) {
  say("  native stacks in the order of a step");
  constexpr std::size_t kStepBlocks = 280;
  constexpr std::size_t kWays = 40;
  constexpr int kSettlingSteps = 4;
  constexpr int kSteps = 10;
  const std::size_t fewest = levels_for(kFrames);
  std::mt19937 random(1);
  std::vector<std::size_t> order(kStepBlocks);
  for (std::size_t& levels : order) levels = fewest + random() % kWays;
  BlocksInOrder blocks{&bench.calls.wrapped, {}, {}, {}};
  for (int step = 0; step < kSettlingSteps + kSteps; ++step) {
    if (step == kSettlingSteps) {
      blocks.with.clear();
      blocks.without.clear();
    }
    for (const std::size_t levels : order) run_below(levels, {time_blocks_in_order, &blocks});
  }
  Row row;
  row.what = "the same, 40 stacks of 20 to 60 frames in the order of a step";
  row.unit = "ns added to a block, mean";
  const double without = mean_of_most(blocks.without);
  row.measured = (mean_of_most(blocks.with) - without) * bench.ns_per_tick;
  row.context["block_without_stack_ns"] = without * bench.ns_per_tick;
  row.context["median_ns"] = (median(blocks.with) - median(blocks.without)) * bench.ns_per_tick;
  return row;
}

// Each number of levels makes another stack with one new return address.
Row measure_new(const RecorderBench& bench) {
  say("  new native stacks");
  struct Once {
    const Calls* calls;
    double ticks;
  };
  std::vector<double> first;
  std::vector<double> second;
  for (std::size_t levels = 1; levels <= kMostLevels; ++levels) {
    for (std::vector<double>* times : {&first, &second}) {
      Once once{&bench.calls.wrapped, 0};
      run_below(levels, {[](void* argument) {
                           Once& call = *static_cast<Once*>(argument);
                           const std::uint64_t begin = ticks();
                           call.calls->report_block(kBlock, 512, 512, 1 << 20, C10Device{});
                           call.ticks = static_cast<double>(ticks() - begin);
                         },
                         &once});
      times->push_back(once.ticks);
    }
  }
  Row row;
  row.what = "a native stack with one new return address";
  row.unit = "ns, once";
  row.measured = median(first) * bench.ns_per_tick;
  row.context["second_time_ns"] = median(second) * bench.ns_per_tick;
  return row;
}

}  // namespace

std::vector<Row> measure_native_stacks(const RecorderBench& bench) {
  Row fresh = measure_new(bench);  // runs first: its stacks must not be known yet
  return {measure_known(bench), measure_cold(bench), measure_in_order(bench), std::move(fresh)};
}

}  // namespace gpumemtrace::bench
