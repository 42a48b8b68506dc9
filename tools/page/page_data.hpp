// SPDX-License-Identifier: Apache-2.0
// The part of the report that the page holds, each section within its share of the file. Rows left
// out of costs and of live blocks are summed, those left out of the report's tables are counted.
#pragma once

#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// A part of the page that is decoded after the first view is drawn.
struct PageChunk {
  std::string name;
  std::string text;  // as encoded_chunk() returns it
};

// The data of the first view as JSON: the report's own keys with the rows of the process that ran
// out of memory, else of the one that held most of a device, and the key `page` with facts about
// the job as a whole.
[[nodiscard]] std::string page_head(const analyzer::rows::Report& report);

// `report`: the report's own keys with the rows of all processes. `costs`: rows of costs, and the
// frames of their stacks in one table. `blocks`: single allocations (page_blocks.hpp). `timeline`:
// memory over time of all processes.
[[nodiscard]] std::vector<PageChunk> page_chunks(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
