// SPDX-License-Identifier: Apache-2.0
// The part of a job that an export has.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// A span of time. Both ends are inclusive; a single moment has two equal ends.
struct TimeSpan {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = ~std::uint64_t{0};
};

// Removes everything outside of the span: allocations, steps and ranges that do not overlap it, and
// peaks, marks, failed requests and findings of other times. The rest is unchanged.
void keep_time(analyzer::rows::Report& report, const TimeSpan& span);

// Marks allocations that outlived `end_ns` as live at the end, as if the trace ended then.
void end_lives_at(analyzer::rows::Report& report, std::uint64_t end_ns);

// Keeps only allocations, peaks and timelines of `level`; the rest is unchanged.
void keep_level(analyzer::rows::Report& report, analyzer::Level level);

// Replaces the report's costs by the bytes in blocks[] that were live at the chosen time, stored as
// peak_bytes.
void take_costs_of_moment(analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
