// SPDX-License-Identifier: Apache-2.0
// The part of the report that the page holds, each section within its share of the file. Rows left
// out are counted and summed, so that the shown rows add up to the report.
#pragma once

#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// The process that the page shows first, and its device.
struct PageFocus {
  Json process;  // null in a report without processes
  Json device;   // null if no memory of a device was used
};

// The process that ran out of memory, else the one that held most of a device.
[[nodiscard]] PageFocus page_focus(const Json& report);

// A part of the page that is decoded after the first view is drawn.
struct PageChunk {
  std::string name;
  std::string text;  // of encoded_chunk()
};

// The data of the first view: the report's own keys with the rows of the focus, and the key `page`
// with facts about the job as a whole. `all_rows` is the same report as rows.
[[nodiscard]] Json page_head(const Json& report, const analyzer::rows::Report& all_rows);

// `report`: the report's own keys with the rows of all processes. `costs`: rows of costs, and the
// frames of their stacks in one table. `blocks`: single allocations (page_blocks.hpp). `timeline`:
// memory over time of all processes.
[[nodiscard]] std::vector<PageChunk> page_chunks(const Json& report);

}  // namespace gpumemtrace::tools
