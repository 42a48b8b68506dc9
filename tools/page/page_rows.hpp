// SPDX-License-Identifier: Apache-2.0
// Rows that the page has in addition to the report's; tools/page/src/page_types.ts has their types.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::tools {

namespace rows = analyzer::rows;

// Rows of a list of the report that do not fit into the page.
struct LeftOut {
  std::string key;
  std::uint64_t rows = 0;
  std::uint64_t of = 0;

  GPUMEMTRACE_FIELDS(key, rows, of)
};

// Facts of all processes together.
struct PageJob {
  std::uint64_t processes = 0;
  std::uint64_t traces = 0;
  std::uint64_t incomplete = 0;
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t steps = 0;
  bool steps_are_repetitions = false;
  rows::NamedNumbers ends;

  GPUMEMTRACE_FIELDS(processes, traces, incomplete, events, dropped, duration_ns, steps,
                     steps_are_repetitions, ends)
};

// The process that the page shows first, and its device.
struct PageFocus {
  rows::OptionalText process;  // no value in a report without processes
  rows::OptionalText device;   // no value if no memory of a device was used
};

struct PageFacts : PageFocus {
  PageJob job;

  GPUMEMTRACE_FIELDS(process, device, job)
};

// The sections that the first view needs.
inline constexpr auto kHeadSections = std::to_array<std::string_view>(
    {"format",   "version", "tool",        "redacted",   "traces",   "processes",     "devices",
     "usage",    "peak",    "composition", "card_peaks", "leaks",    "fragmentation", "oom",
     "timeline", "window",  "findings",    "ranks",      "coverage", "losses"});
// The sections of the report that have chunks of their own.
inline constexpr auto kSeparateSections = std::to_array<std::string_view>(
    {"frames_by", "frames", "stacks", "costs", "timeline", "largest_blocks", "blocks", "segments"});

[[nodiscard]] constexpr bool is_among(const auto& list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

struct PageHead {
  rows::Report report;
  PageFacts page;

  static void fields(auto& self, auto& v) {
    rows::for_each_section(self.report, [&](const char* key, const auto& value) {
      if (is_among(kHeadSections, key)) v(key, value);
    });
    v("page", self.page);
  }
};

struct PageTables {
  rows::Report report;
  std::vector<LeftOut> left_out;

  static void fields(auto& self, auto& v) {
    rows::for_each_section(self.report, [&](const char* key, const auto& value) {
      if (!is_among(kSeparateSections, key)) v(key, value);
    });
    v("left_out", self.left_out);
  }
};

struct PageFrame {
  std::string name;
  rows::OptionalText file;
  rows::OptionalNumber line;
  rows::Language kind = rows::Language::kNative;

  GPUMEMTRACE_FIELDS(name, file, line, kind)
};

struct PageCosts {
  std::vector<rows::Cost> costs;
  std::vector<PageFrame> frames;
  // For each stack's id, the indexes of its frames, outermost first.
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> stacks;

  GPUMEMTRACE_FIELDS(costs, frames, stacks)
};

// The sum of the blocks of one origin and category that were live at time_ns. The owner "other"
// stands for all origins that have no row of their own.
struct HeldBlocks : rows::OnLevel {
  std::uint64_t time_ns = 0;
  rows::Origin origin;
  analyzer::Category category = analyzer::Category::kUnknown;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, time_ns);
    rows::Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, category, bytes, count);
  }
};

struct PageBlocks {
  std::vector<rows::LargestBlock> largest_blocks;
  std::vector<HeldBlocks> held;
  std::vector<rows::Segment> segments;

  GPUMEMTRACE_FIELDS(largest_blocks, held, segments)
};

}  // namespace gpumemtrace::tools
