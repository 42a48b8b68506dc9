// SPDX-License-Identifier: Apache-2.0
// The measurements of bench_recorder. Each compares bursts of wrapped calls with bursts of the same
// calls unwrapped, in turns. The background thread catches up between bursts: calls that do nothing
// are a hundred times as frequent as real ones, and dropped records would cost less than kept ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/noop_calls.hpp"
#include "bench/results.hpp"
#include "bench/ring_view.hpp"

namespace gpumemtrace::bench {

struct RecorderBench {
  CallForms calls;
  const RingView& ring;
  double ns_per_tick = 1;
  std::size_t rounds = 200;
  std::string file_system;      // file system of the ring's folder
  std::vector<int> processors;  // the measuring thread runs on the first of them
  double cores_apart_ns = 0;    // round trip of a cache line between the first and last processor
};

// On one thread, for every kind of call: the cost of one event as a multiple of a time stamp and a
// 48-byte store.
[[nodiscard]] std::vector<Row> measure_calls(const RecorderBench& bench);
// Times every call alone: p50, p99, p99.9.
[[nodiscard]] Row measure_latency(const RecorderBench& bench);
// The cost of an event with one thread up to as many threads as processors, all at once.
[[nodiscard]] Row measure_threads(const RecorderBench& bench);
// Events without pauses, so that the ring has to grow and new memory is written for the first time.
[[nodiscard]] Row measure_growth(const RecorderBench& bench);
// Events without pauses and with GPUMEMTRACE_ON_FULL=block: the rate at which the background thread
// can write them to the trace.
[[nodiscard]] Row measure_sustained(const RecorderBench& bench);
// Events of many more threads than processors, without pauses, in a ring that is almost always
// full.
[[nodiscard]] Row measure_full_ring(const RecorderBench& bench);

}  // namespace gpumemtrace::bench
