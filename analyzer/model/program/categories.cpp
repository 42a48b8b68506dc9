// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/categories.hpp"

#include <array>

namespace gpumemtrace::analyzer {
namespace {

constexpr Verdict inferred(Category category) { return {category, Confidence::kInferred}; }
constexpr Verdict heuristic(Category category) { return {category, Confidence::kHeuristic}; }

// A gradient is born in backward and waits for the optimizer. Workspaces of libraries are born
// there, too, and live on; no parameter has their size.
Verdict born_in_backward(const BlockFacts& block) {
  if (block.life.freed_by_zero_grad) return inferred(Category::kGradient);
  if (block.life.outlived_step) {
    return block.parameter_sized ? inferred(Category::kGradient) : heuristic(Category::kOther);
  }
  if (block.life.freed) return heuristic(Category::kTemporary);
  if (!block.life.outlived_phase) return {};
  return block.parameter_sized ? heuristic(Category::kGradient) : Verdict{};
}

// What forward leaves is for backward, or is the result that the next forward replaces.
Verdict born_in_forward(const BlockFacts& block) {
  if (block.life.outlived_next_step) return heuristic(Category::kOther);
  if (!block.life.outlived_phase) return heuristic(Category::kActivation);
  return inferred(Category::kActivation);
}

}  // namespace

Verdict categorize(const BlockFacts& block) {
  const bool is_placed = block.placed != Placed::kNowhere;
  if (block.life.freed && !block.life.outlived_phase) {
    const bool has_use = is_placed || block.receives_input || block.born_in != Phase::kNone;
    return has_use ? inferred(Category::kTemporary) : Verdict{};
  }
  if (is_placed) {
    const bool is_buffer = block.placed == Placed::kAsBuffer;
    return inferred(is_buffer ? Category::kOther : Category::kParameter);
  }
  if (block.born_in == Phase::kOptimizer) {
    return block.life.outlived_phase ? inferred(Category::kOptimizerState)
                                     : heuristic(Category::kOptimizerState);
  }
  if (block.born_in == Phase::kBackward) return born_in_backward(block);
  if (block.receives_input) return inferred(Category::kInput);
  if (block.born_in == Phase::kForward) return born_in_forward(block);
  return {};
}

std::string_view name_of(Category category) {
  constexpr std::array<std::string_view, kCategories> kNames = {
      "", "parameter", "gradient", "optimizer_state", "activation", "input", "temporary", "other"};
  return kNames[static_cast<std::size_t>(category)];
}

std::string_view name_of(Confidence confidence) {
  constexpr std::array<std::string_view, 3> kNames = {"", "heuristic", "inferred"};
  return kNames[static_cast<std::size_t>(confidence)];
}

}  // namespace gpumemtrace::analyzer
