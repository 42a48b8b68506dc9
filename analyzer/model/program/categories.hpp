// SPDX-License-Identifier: Apache-2.0
// What a block of the framework is for, as a pure function of the phase and the stack that it was
// born in and of how it lived. docs/categories.md has the rules in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/model/accounts/phase_clock.hpp"

namespace gpumemtrace::analyzer {

enum class Category : std::uint8_t {
  kUnknown,
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kInput,
  kTemporary,
  kOther,
};
inline constexpr std::size_t kCategories = 8;
[[nodiscard]] std::string_view name_of(Category category);  // empty for kUnknown

// kInferred: born in a place, and living in a way, that only this category has. kHeuristic: the
// likely one.
enum class Confidence : std::uint8_t { kNone, kHeuristic, kInferred };
[[nodiscard]] std::string_view name_of(Confidence confidence);  // empty for kNone

struct Verdict {
  Category category = Category::kUnknown;
  Confidence confidence = Confidence::kNone;
  friend auto operator<=>(const Verdict&, const Verdict&) = default;
};

// Where modules are built or moved to a device.
enum class Placed : std::uint8_t { kNowhere, kAsParameter, kAsBuffer };

struct BlockFacts {
  Phase born_in = Phase::kNone;
  Placed placed = Placed::kNowhere;
  bool receives_input = false;   // copies from the host go to blocks of its call site
  bool parameter_sized = false;  // there is a parameter of its size, or none is known at all
  Lifetime life;
};
[[nodiscard]] Verdict categorize(const BlockFacts& block);

}  // namespace gpumemtrace::analyzer
