// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_blocks.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "analyzer/json/row_values.hpp"

namespace gpumemtrace::tools {
namespace {

std::vector<rows::LargestBlock> largest_rows(std::vector<rows::LargestBlock> blocks,
                                             std::size_t most) {
  if (blocks.size() <= most) return blocks;
  std::ranges::stable_sort(blocks, std::ranges::greater(), &rows::LargestBlock::bytes);
  blocks.resize(most);
  return blocks;
}

// Sums rows that are equal except for their bytes and count.
class HeldSums {
 public:
  void add(HeldBlocks row) {
    const std::uint64_t bytes = std::exchange(row.bytes, 0);
    const std::uint64_t count = std::exchange(row.count, 0);
    HeldBlocks& sum = sums_.try_emplace(analyzer::json_text(row), row).first->second;
    sum.bytes += bytes;
    sum.count += count;
  }
  [[nodiscard]] std::vector<HeldBlocks> rows() const {
    std::vector<HeldBlocks> rows;
    for (const auto& [key, row] : sums_) rows.push_back(row);
    return rows;
  }

 private:
  std::map<std::string, HeldBlocks> sums_;
};

HeldBlocks held_row(const rows::BlockAt& block) {
  return {{{block.process, block.device}, block.level},
          block.time_ns,
          block.origin,
          block.category,
          block.bytes,
          1};
}

// Sums the blocks that were live at the requested time. Rows beyond the `most` largest are summed
// again, with the owner "other".
std::vector<HeldBlocks> held_rows(const std::vector<rows::BlockAt>& blocks, std::size_t most) {
  HeldSums sums;
  for (const rows::BlockAt& block : blocks) {
    if (block.at == rows::BlocksAt::kTime) sums.add(held_row(block));
  }
  std::vector<HeldBlocks> held = sums.rows();
  std::ranges::stable_sort(held, std::ranges::greater(), &HeldBlocks::bytes);
  HeldSums rest;
  for (std::size_t i = most; i < held.size(); ++i) {
    held[i].origin = {"other", {}, {}};
    held[i].category = analyzer::Category::kUnknown;
    rest.add(std::move(held[i]));
  }
  held.resize(std::min(held.size(), most));
  for (HeldBlocks& row : rest.rows()) held.push_back(std::move(row));
  return held;
}

}  // namespace

PageBlocks blocks_for_page(const rows::Report& report, std::size_t most) {
  return {largest_rows(report.largest_blocks, most),
          held_rows(report.blocks.value_or(std::vector<rows::BlockAt>()), most), report.segments};
}

}  // namespace gpumemtrace::tools
