// SPDX-License-Identifier: Apache-2.0
// The losses, distortions and guesses of one job: a count for each row of trace/stats.def.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemtrace::analyzer {

enum class LossSeverity : std::uint8_t { data_loss, inferred, info };

enum class Loss : std::uint8_t {
#define GPUMEMTRACE_STAT(name, severity, remedy) name,
#include "trace/stats.def"
#undef GPUMEMTRACE_STAT
  kCount,
};

struct LossInfo {
  std::string_view name;
  LossSeverity severity;
  std::string_view remedy;
};

inline constexpr std::array kLosses = {
#define GPUMEMTRACE_STAT(name, severity, remedy) LossInfo{#name, LossSeverity::severity, remedy},
#include "trace/stats.def"
#undef GPUMEMTRACE_STAT
};
static_assert(kLosses.size() == static_cast<std::size_t>(Loss::kCount));

// The counts of all rows of trace/stats.def.
class Losses {
 public:
  void add(Loss loss, std::uint64_t count) { counts_[static_cast<std::size_t>(loss)] += count; }
  [[nodiscard]] std::uint64_t operator[](Loss loss) const {
    return counts_[static_cast<std::size_t>(loss)];
  }

 private:
  std::array<std::uint64_t, kLosses.size()> counts_{};
};

}  // namespace gpumemtrace::analyzer
