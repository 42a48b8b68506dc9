// SPDX-License-Identifier: Apache-2.0
// Named instants of the run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/words.hpp"

namespace gpumemtrace::analyzer {

enum class MarkSource : std::uint8_t { kControl, kApi, kNvtx };
constexpr auto names(MarkSource) { return std::to_array<std::string_view>({"ctl", "api", "nvtx"}); }

struct NamedMark {
  std::uint64_t time = 0;  // model time
  MarkSource source = MarkSource::kControl;
  std::string name;
};

// The first ones and the last ones; those between are counted.
class Marks {
 public:
  static constexpr std::size_t kEnds = 500;

  void add(std::uint64_t time, MarkSource source, std::string_view name) {
    NamedMark mark{time, source, std::string(name)};
    if (first_.size() < kEnds) {
      first_.push_back(std::move(mark));
      return;
    }
    last_.push_back(std::move(mark));
    if (last_.size() <= kEnds) return;
    last_.pop_front();
    ++left_out_;
  }
  // In the order of time.
  [[nodiscard]] std::vector<NamedMark> all() const {
    std::vector<NamedMark> kept = first_;
    kept.insert(kept.end(), last_.begin(), last_.end());
    return kept;
  }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  std::vector<NamedMark> first_;
  std::deque<NamedMark> last_;
  std::uint64_t left_out_ = 0;
};

}  // namespace gpumemtrace::analyzer
