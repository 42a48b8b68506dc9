// SPDX-License-Identifier: Apache-2.0
// counted_trace FILE EVENTS: writes a trace of so many events, the same one in every run.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "bench/synthetic_trace.hpp"

int main(int argc, char** argv) {
  using namespace gpumemtrace::bench;
  if (argc != 3) return 2;
  try {
    const auto events = static_cast<std::uint64_t>(std::atoll(argv[2]));
    std::printf("%llu\n", static_cast<unsigned long long>(
                              write_synthetic_trace(argv[1], Pattern::kTraining, events).events));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "counted_trace: %s\n", error.what());
    return 1;
  }
}
