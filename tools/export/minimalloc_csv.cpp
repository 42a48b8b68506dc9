// SPDX-License-Identifier: Apache-2.0
#include "tools/export/minimalloc_csv.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tools/base/failure.hpp"

namespace gpumemtrace::tools {

std::string minimalloc_csv(const analyzer::rows::Report& report, analyzer::Level level) {
  std::vector<const analyzer::rows::Allocation*> blocks;
  std::set<std::pair<std::string, std::string>> places;  // process and device
  std::uint64_t last_ns = 0;
  for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
    for (const analyzer::rows::Allocation& row : history.allocations) {
      if (row.level != level || !row.device || row.bytes == 0) continue;
      blocks.push_back(&row);
      places.emplace(history.process, *row.device);
      last_ns = std::max({last_ns, row.start_ns, row.end_ns.value_or(0)});
    }
  }
  if (blocks.empty()) throw Failure("there is no memory of that level on a device");
  if (places.size() > 1) {
    throw Failure(
        "a packing is of one process and device, and the job has several; name a process with "
        "--rank, or give its trace alone");
  }
  std::string text = "id,lower,upper,size\n";
  std::size_t id = 0;
  for (const analyzer::rows::Allocation* row : blocks) {
    const std::uint64_t end_ns = row->end_ns.value_or(last_ns + 1);
    text += std::to_string(id++) + ',' + std::to_string(row->start_ns) + ',' +
            std::to_string(std::max(end_ns, row->start_ns + 1)) + ',' + std::to_string(row->bytes) +
            '\n';
  }
  return text;
}

}  // namespace gpumemtrace::tools
