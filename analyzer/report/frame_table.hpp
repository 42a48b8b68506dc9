// SPDX-License-Identifier: Apache-2.0
// The table of frames for frames[] of the report: each frame once, numbered in order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

struct FrameHash {
  [[nodiscard]] std::size_t operator()(const rows::Frame& frame) const {
    const std::hash<std::string_view> hash_of;
    std::size_t hash = frame.line.value_or(0);
    hash = hash * 31 + frame.offset.value_or(0);
    for (const rows::OptionalCode* const text : {&frame.function, &frame.file, &frame.module}) {
      hash = hash * 31 + (*text ? hash_of(**text) : 0);
    }
    return hash;
  }
};

class FrameTable {
 public:
  [[nodiscard]] std::uint64_t index_of(const rows::Frame& frame) {
    const auto [found, is_new] = indexes_.try_emplace(frame, list_.size());
    if (is_new) list_.push_back(&found->first);
    return found->second;
  }
  [[nodiscard]] std::vector<rows::Frame> take() const {
    std::vector<rows::Frame> frames;
    for (const rows::Frame* frame : list_) frames.push_back(*frame);
    return frames;
  }

 private:
  std::unordered_map<rows::Frame, std::uint64_t, FrameHash> indexes_;
  std::vector<const rows::Frame*> list_;
};

// The numbers that the frames of one table get in another table, given when they are first asked
// for: each frame is compared once, however many stacks have it.
class FrameNumbers {
 public:
  FrameNumbers(const std::vector<rows::Frame>& frames, FrameTable& table)
      : frames_(&frames), table_(&table), numbers_(frames.size()) {}

  void renumber(rows::Stack& stack) {
    for (std::uint64_t& index : stack.frames.indexes) {
      std::optional<std::uint64_t>& number = numbers_[index];
      if (!number) number = table_->index_of((*frames_)[index]);
      index = *number;
    }
  }

 private:
  const std::vector<rows::Frame>* frames_;
  FrameTable* table_;
  // The new numbers, by the frame's index in the first table.
  std::vector<std::optional<std::uint64_t>> numbers_;
};

}  // namespace gpumemtrace::analyzer
