// SPDX-License-Identifier: Apache-2.0
#include "bench/recorder_phases.hpp"

#include <time.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>
#include <utility>

#include "bench/processors.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::bench {
namespace {

// The events of one burst fill more than one chunk of the largest size, so each burst pays for a
// new chunk.
constexpr std::uint32_t kBurstEvents = 8192;
constexpr std::uint32_t kWarmUpEvents = 64;

constexpr cuda_abi::CUdeviceptr kAddress = 0x7f00'0000'0000;
const auto kStream = reinterpret_cast<cuda_abi::CUstream>(std::uintptr_t{0x10});

// The kinds of work that a burst can repeat. One call of `once` makes `kEvents` records.
struct AllocateAndFree {
  static constexpr std::uint32_t kEvents = 2;
  static void once(const Calls& calls, std::uint32_t i) {
    cuda_abi::CUdeviceptr address = kAddress;
    calls.allocate(&address, 512u * (i & 1023u));
    keep(address);
    calls.free(address);
  }
};

struct AllocateAndFreeAsync {
  static constexpr std::uint32_t kEvents = 2;
  static void once(const Calls& calls, std::uint32_t i) {
    cuda_abi::CUdeviceptr address = kAddress;
    calls.allocate_async(&address, 512u * (i & 1023u), kStream);
    keep(address);
    calls.free_async(address, kStream);
  }
};

struct CopyAsync {
  static constexpr std::uint32_t kEvents = 1;
  static void once(const Calls& calls, std::uint32_t i) {
    calls.copy_async(kAddress, kAddress + 4096, i, kStream);
  }
};

struct SwitchContextAndAllocate {
  static constexpr std::uint32_t kEvents = 2;
  static void once(const Calls& calls, std::uint32_t i) {
    calls.set_context(reinterpret_cast<cuda_abi::CUcontext>(std::uintptr_t{0x1000} << (i & 1u)));
    AllocateAndFree::once(calls, i);
  }
};

struct ReportBlocks {
  static constexpr std::uint32_t kEvents = 1;
  static void once(const Calls& calls, std::uint32_t i) {
    const std::int64_t bytes = (i & 1u) != 0 ? -512 : 512;
    calls.report_block(reinterpret_cast<void*>(kAddress), bytes, 512, 1 << 20, C10Device{});
  }
};

// Returns the ticks per event in one burst.
template <class Operation>
double time_burst(const Calls& calls) {
  constexpr std::uint32_t kRepetitions = kBurstEvents / Operation::kEvents;
  for (std::uint32_t i = 0; i < kWarmUpEvents; ++i) Operation::once(calls, i);
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kRepetitions; ++i) Operation::once(calls, i);
  return static_cast<double>(ticks() - begin) / kBurstEvents;
}

// The unit of comparison: ticks to store a time stamp and 48 bytes in the first-level cache.
double time_stamp_burst() {
  struct Stamp {
    std::uint64_t words[6];
  };
  constexpr std::uint32_t kStamps = 256;
  alignas(64) static thread_local Stamp stamps[kStamps];
  const std::uint64_t begin = ticks();
  for (std::uint32_t i = 0; i < kBurstEvents; ++i) {
    Stamp& stamp = stamps[i % kStamps];
    stamp = {{ticks(), i, i, i, i, i}};
    keep(stamp);
  }
  return static_cast<double>(ticks() - begin) / kBurstEvents;
}

struct Costs {
  double added_ticks = 0;      // one wrapped event less one unwrapped event
  double unwrapped_ticks = 0;  // one unwrapped event
  double stamp_ticks = 0;
};

// Medians over the rounds; the order of the three bursts changes from round to round.
template <class Operation>
Costs compare(const RecorderBench& bench) {
  std::vector<double> added;
  std::vector<double> unwrapped;
  std::vector<double> stamps;
  for (std::size_t round = 0; round < bench.rounds; ++round) {
    bench.ring.wait_until_packed();
    double wrapped = 0;
    double plain = 0;
    for (std::size_t turn = 0; turn < 3; ++turn) {
      switch ((round + turn) % 3) {
        case 0:
          stamps.push_back(time_stamp_burst());
          break;
        case 1:
          plain = time_burst<Operation>(bench.calls.unwrapped);
          break;
        default:
          wrapped = time_burst<Operation>(bench.calls.wrapped);
      }
    }
    added.push_back(wrapped - plain);
    unwrapped.push_back(plain);
  }
  return {median(added), median(unwrapped), median(stamps)};
}

template <class Operation>
Row compare_to_stamp(const RecorderBench& bench, const std::string& what) {
  say("  " + what);
  const std::uint64_t dropped_before = bench.ring.dropped();
  const Costs costs = compare<Operation>(bench);
  Row row;
  row.what = "recording one event: " + what;
  row.unit = "x (time stamp + 48-byte store)";
  row.measured = costs.added_ticks / costs.stamp_ticks;
  row.at_most = 3;
  row.beside = "elsewhere: CUPTI MEMORY2 about 500 ns, LTTng-UST about 200 ns";
  row.context = {{"added_ns", costs.added_ticks * bench.ns_per_tick},
                 {"unwrapped_ns", costs.unwrapped_ticks * bench.ns_per_tick},
                 {"stamp_and_store_ns", costs.stamp_ticks * bench.ns_per_tick},
                 {"cores_apart_ns", bench.cores_apart_ns},
                 {"ring_mib", static_cast<double>(bench.ring.used_bytes()) / (1 << 20)},
                 {"dropped_events", static_cast<double>(bench.ring.dropped() - dropped_before)}};
  return row;
}

// Times of single calls in ticks, including the reading of the counter.
std::vector<double> time_each(const Calls& calls, std::uint32_t count) {
  std::vector<double> times(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t begin = ticks();
    calls.copy_async(kAddress, kAddress + 4096, i, kStream);
    times[i] = static_cast<double>(ticks() - begin);
  }
  return times;
}

// Measures all threads at once; returns for each thread the median of the ticks that recording adds
// to an event.
std::vector<double> measure_together(const RecorderBench& bench, std::size_t threads) {
  std::vector<double> medians(threads);
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads));
  const auto run = [&](std::size_t index) {
    std::vector<double> added;
    run_on({bench.processors[index]});
    for (std::size_t round = 0; round < bench.rounds; ++round) {
      if (index == 0) bench.ring.wait_until_packed();
      barrier.arrive_and_wait();
      const double plain = time_burst<AllocateAndFree>(bench.calls.unwrapped);
      barrier.arrive_and_wait();
      added.push_back(time_burst<AllocateAndFree>(bench.calls.wrapped) - plain);
      barrier.arrive_and_wait();
    }
    medians[index] = median(added);
  };
  std::vector<std::thread> others;
  for (std::size_t index = 1; index < threads; ++index) others.emplace_back(run, index);
  run(0);
  for (std::thread& thread : others) thread.join();
  return medians;
}

// The calling thread's processor time. If threads wait for a processor, the time stamps of a burst
// would include the work of other threads.
double processor_ns() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Nanoseconds of the thread's processor time for one event, over many bursts.
double time_bursts(const Calls& calls, std::uint32_t bursts) {
  const double begin = processor_ns();
  for (std::uint32_t burst = 0; burst < bursts; ++burst) time_burst<AllocateAndFree>(calls);
  return (processor_ns() - begin) / (double{kBurstEvents} * bursts);
}

}  // namespace

std::vector<Row> measure_calls(const RecorderBench& bench) {
  return {
      compare_to_stamp<AllocateAndFree>(bench, "cuMemAlloc, cuMemFree"),
      compare_to_stamp<AllocateAndFreeAsync>(bench, "cuMemAllocAsync, cuMemFreeAsync"),
      compare_to_stamp<CopyAsync>(bench, "cuMemcpyAsync"),
      compare_to_stamp<SwitchContextAndAllocate>(bench, "cuCtxSetCurrent, cuMemAlloc, cuMemFree"),
      compare_to_stamp<ReportBlocks>(bench, "block of PyTorch's allocator"),
  };
}

Row measure_latency(const RecorderBench& bench) {
  say("  every call on its own, ring on " + bench.file_system);
  std::vector<double> wrapped;
  std::vector<double> unwrapped;
  for (std::size_t round = 0; round < bench.rounds; ++round) {
    bench.ring.wait_until_packed();
    for (const double time : time_each(bench.calls.unwrapped, kBurstEvents)) {
      unwrapped.push_back(time);
    }
    for (const double time : time_each(bench.calls.wrapped, kBurstEvents)) wrapped.push_back(time);
  }
  Row row;
  row.what = "p99.9 of one wrapped call, ring on " + bench.file_system;
  row.unit = "ns";
  row.measured = quantile(wrapped, 0.999) * bench.ns_per_tick;
  constexpr std::pair<const char*, double> kFractions[] = {
      {"p50_ns", 0.5}, {"p99_ns", 0.99}, {"p99_9_ns", 0.999}, {"p99_99_ns", 0.9999}};
  for (const auto& [name, fraction] : kFractions) {
    row.context[name] = quantile(wrapped, fraction) * bench.ns_per_tick;
    row.context[std::string("unwrapped_") + name] =
        quantile(unwrapped, fraction) * bench.ns_per_tick;
  }
  return row;
}

Row measure_threads(const RecorderBench& bench) {
  const std::size_t processors = bench.processors.size();
  Row row;
  row.what = "threads: cost of an event with as many threads as processors";
  row.unit = "x (cost with one thread)";
  row.at_most = 1.1;
  row.beside = "a global lock in other allocation recorders";
  double alone = 0;
  for (std::size_t threads = 1; threads <= processors;) {
    say("  " + std::to_string(threads) + " threads");
    const double ticks_added = median(measure_together(bench, threads));
    if (threads == 1) alone = ticks_added;
    row.measured = ticks_added / alone;
    row.context["threads_" + std::to_string(threads) + "_added_ns"] =
        ticks_added * bench.ns_per_tick;
    if (threads == processors) break;
    threads = std::min(threads * 2, processors);
  }
  row.context["dropped_events"] = static_cast<double>(bench.ring.dropped());
  return row;
}

Row measure_growth(const RecorderBench& bench) {
  say("  without pause, ring grows");
  constexpr std::uint32_t kBursts = 100;
  constexpr double kMeanRecordBytes = (sizeof(trace::Allocation) + sizeof(trace::Free)) / 2.0;
  bench.ring.wait_until_packed();
  const std::uint64_t used_before = bench.ring.used_bytes();
  const std::uint64_t dropped_before = bench.ring.dropped();
  double sum = 0;
  for (std::uint32_t burst = 0; burst < kBursts; ++burst) {
    sum += time_burst<AllocateAndFree>(bench.calls.wrapped);
  }
  Row row;
  row.what = "recording one event without pause, ring grows on " + bench.file_system;
  row.unit = "ns";
  row.measured = sum / kBursts * bench.ns_per_tick;
  row.context = {
      {"grown_mib", static_cast<double>(bench.ring.used_bytes() - used_before) / (1 << 20)},
      {"written_mib", kBursts * kBurstEvents * kMeanRecordBytes / (1 << 20)},
      {"dropped_events", static_cast<double>(bench.ring.dropped() - dropped_before)}};
  return row;
}

Row measure_sustained(const RecorderBench& bench) {
  say("  as fast as the background thread packs");
  constexpr std::uint32_t kBursts = 500;
  const std::uint64_t begin = ticks();
  for (std::uint32_t burst = 0; burst < kBursts; ++burst) {
    time_burst<ReportBlocks>(bench.calls.wrapped);
  }
  bench.ring.wait_until_packed();
  const double seconds = static_cast<double>(ticks() - begin) * bench.ns_per_tick / 1e9;
  Row row;
  row.what = "events a second that one background thread packs";
  row.unit = "M events/s";
  row.measured = kBursts * static_cast<double>(kBurstEvents + kWarmUpEvents) / seconds / 1e6;
  row.beside = "PyTorch training: 0.07 M block events/s";
  row.context = {{"dropped_events", static_cast<double>(bench.ring.dropped())}};
  return row;
}

Row measure_full_ring(const RecorderBench& bench) {
  constexpr std::size_t kThreads = 64;
  const auto bursts = static_cast<std::uint32_t>(bench.rounds);
  say("  " + std::to_string(kThreads) + " threads without pause, smallest ring");
  std::vector<double> added(kThreads);
  std::vector<double> stamps;
  for (std::size_t round = 0; round < bench.rounds; ++round) stamps.push_back(time_stamp_burst());
  std::barrier barrier(static_cast<std::ptrdiff_t>(kThreads));
  const std::uint64_t dropped_before = bench.ring.dropped();
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      run_on(bench.processors);
      const double plain = time_bursts(bench.calls.unwrapped, bursts);
      barrier.arrive_and_wait();
      added[index] = time_bursts(bench.calls.wrapped, bursts) - plain;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double made = double{kThreads} * bursts * (kBurstEvents + 2 * kWarmUpEvents);
  Row row;
  row.what = "recording one event with a full ring: 64 threads";
  row.unit = "x (time stamp + 48-byte store)";
  row.measured = median(added) / (median(stamps) * bench.ns_per_tick);
  row.at_most = 3;
  row.context = {{"added_ns", median(added)},
                 {"made_events", made},
                 {"dropped_events", static_cast<double>(bench.ring.dropped() - dropped_before)},
                 {"ring_mib", static_cast<double>(bench.ring.used_bytes()) / (1 << 20)}};
  return row;
}

}  // namespace gpumemtrace::bench
