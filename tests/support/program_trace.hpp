// SPDX-License-Identifier: Apache-2.0
// Traces of a program with a library of its own, and the findings about it.
#pragma once

#include "tests/support/report_query.hpp"

namespace gpumemtrace::tests {

inline constexpr std::uint64_t kProgram = 0x100000;  // where the user's own library is loaded
inline constexpr std::uint64_t kLeaky = kProgram + 0x10;

inline TraceBuilder program_trace(std::uint32_t process_id = 100) {
  TraceBuilder trace(process_id);
  trace.module(kProgram, kProgram + 0x10000, "/home/me/libmine.so");
  trace.api(1, "cuMemAlloc_v2", "cudaMalloc");
  return trace;
}

inline Json findings_of(TraceBuilder& trace, const char* rule, Ending ending = Ending::kExit) {
  Json found = Json::array();
  const Json report = report_of(trace, ending);
  for (const Json& finding : report.at("findings")) {
    if (finding.at("rule") == rule) found.push_back(finding);
  }
  return found;
}

// Ten segments of the framework, each with a block of 1 MiB that stays and 19 MiB free beside it.
inline void strand_memory(TraceBuilder& trace) {
  constexpr auto kBlock = static_cast<std::int64_t>(kMiB);
  const auto segment = [](std::uint64_t number) { return 0x200000000 + number * 64 * kMiB; };
  for (std::uint64_t i = 0; i < 10; ++i) {
    trace.allocate(segment(i), 20 * kMiB);
    trace.block(segment(i), kBlock, (i + 1) * 20 * kMiB);
    trace.block(segment(i) + kMiB, 19 * kBlock, (i + 1) * 20 * kMiB);
  }
  for (std::uint64_t i = 0; i < 10; ++i) {
    trace.block(segment(i) + kMiB, -19 * kBlock, 200 * kMiB);
  }
}

}  // namespace gpumemtrace::tests
