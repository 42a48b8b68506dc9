// SPDX-License-Identifier: Apache-2.0
// The relations of other processes to this one.
#pragma once

#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Background thread only. An answer is read from /proc once and kept while the process is in every
// round of samples, so that its number is not another process's by then.
class ProcessRelations {
 public:
  void round_begins() noexcept { ++round_; }
  // Number 0 stands for no process.
  [[nodiscard]] trace::ProcessRelation relation_of(std::uint32_t process_id) noexcept;

 private:
  static constexpr std::uint32_t kMostKnown = 64;

  struct Known {
    std::uint32_t process_id = 0;
    std::uint32_t round = 0;  // in which it was asked about last
    trace::ProcessRelation relation = trace::ProcessRelation::kOther;
  };

  Known known_[kMostKnown];
  std::uint32_t round_ = 1;
};

}  // namespace gpumemtrace::preload
