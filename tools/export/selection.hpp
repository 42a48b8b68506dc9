// SPDX-License-Identifier: Apache-2.0
// The part of a job that an export has.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Both ends belong to it; a single time is both.
struct TimeSpan {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = ~std::uint64_t{0};
};

// Leaves out everything outside of the time: allocations, steps and ranges that were not there in
// it, and peaks, marks, failed requests and findings of another time. The rest is unchanged.
void keep_time(analyzer::rows::Report& report, const TimeSpan& span);

// Allocations that lived on behind the end of the time are taken for live at the end, as in a trace
// that ends there.
void end_lives_at(analyzer::rows::Report& report, std::uint64_t end_ns);

// Leaves out allocations, peaks and timelines of other levels.
void keep_level(analyzer::rows::Report& report, analyzer::Level level);

// Costs become the bytes that were live at the time of blocks[], as peak_bytes.
void take_costs_of_moment(analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
