// SPDX-License-Identifier: Apache-2.0
#include "bench/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace gpumemtrace::bench {

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  }
  return processors;
}

void run_on(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

double measure_round_trip_ns(int from, int to) {
  constexpr std::uint32_t kTries = 20;
  constexpr std::uint32_t kTurns = 2000;
  if (from == to) return 0;
  // The asker changes the number if it is even, the answerer if it is odd.
  std::atomic<std::uint32_t> turn = 0;
  std::thread answerer([&] {
    run_on({to});
    for (std::uint32_t i = 0; i < kTries * kTurns; ++i) {
      while (turn.load(std::memory_order_acquire) != 2 * i + 1) {  // pairs with the asker's store
      }
      turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  double best_ns = 0;
  run_on({from});
  for (std::uint32_t i = 0; i < kTries; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint32_t k = i * kTurns; k < (i + 1) * kTurns; ++k) {
      turn.store(2 * k + 1, std::memory_order_release);
      while (turn.load(std::memory_order_acquire) !=
             2 * k + 2) {  // pairs with the answerer's store
      }
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    best_ns = i == 0 ? time.count() / kTurns : std::min(best_ns, time.count() / kTurns);
  }
  answerer.join();
  return best_ns;
}

}  // namespace gpumemtrace::bench
