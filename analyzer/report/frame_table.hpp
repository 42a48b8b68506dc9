// SPDX-License-Identifier: Apache-2.0
// frames[]: frames with numbers, each once, in the order in which they came.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

class FrameTable {
 public:
  [[nodiscard]] std::uint64_t index_of(const rows::Frame& frame) {
    const auto [found, is_new] = indexes_.try_emplace(frame, list_.size());
    if (is_new) list_.push_back(&found->first);
    return found->second;
  }
  // Adds a stack whose frames have numbers of another table.
  void add(const std::vector<rows::Frame>& others, rows::Stack& stack) {
    for (std::uint64_t& index : stack.frames.indexes) index = index_of(others[index]);
  }
  [[nodiscard]] std::vector<rows::Frame> take() const {
    std::vector<rows::Frame> frames;
    for (const rows::Frame* frame : list_) frames.push_back(*frame);
    return frames;
  }

 private:
  std::map<rows::Frame, std::uint64_t> indexes_;
  std::vector<const rows::Frame*> list_;
};

}  // namespace gpumemtrace::analyzer
