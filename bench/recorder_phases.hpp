// SPDX-License-Identifier: Apache-2.0
// The measurements of bench_recorder. Each compares bursts of wrapped calls with bursts of the same
// calls unwrapped, in turns, and lets the background thread catch up in between: calls that do
// nothing come a hundred times as fast as real ones, and dropped records would be cheap ones.
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
  std::string file_system;      // where the ring lies
  std::vector<int> processors;  // the first is the measuring thread's
  double cores_apart_ns = 0;    // round trip between that and the background thread's
};

// One thread, every kind of call: cost of one event as a multiple of time stamp + 48-byte store.
[[nodiscard]] std::vector<Row> measure_calls(const RecorderBench& bench);
// Every call timed on its own: p50, p99, p99.9.
[[nodiscard]] Row measure_latency(const RecorderBench& bench);
// One to as many threads as there are processors, all at once.
[[nodiscard]] Row measure_threads(const RecorderBench& bench);
// Without pause, so that the ring has to grow and fresh memory is written for the first time.
[[nodiscard]] Row measure_growth(const RecorderBench& bench);
// Without pause and with GPUMEMTRACE_ON_FULL=block: what the background thread can pack.
[[nodiscard]] Row measure_sustained(const RecorderBench& bench);
// Many more threads than processors, without pause, and a ring that is full nearly always.
[[nodiscard]] Row measure_full_ring(const RecorderBench& bench);

}  // namespace gpumemtrace::bench
