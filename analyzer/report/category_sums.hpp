// SPDX-License-Identifier: Apache-2.0
// Bytes of the framework's blocks by category, as in rows of the report.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "analyzer/model/process/process.hpp"
#include "analyzer/model/program/categories.hpp"
#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer {

class CategorySums {
 public:
  void add(Category category, std::uint64_t bytes) {
    bytes_[static_cast<std::size_t>(category)] += bytes;
  }
  // The bytes of every category, in the order of the enum; memory of unknown use comes last.
  [[nodiscard]] rows::NamedNumbers row() const {
    rows::NamedNumbers sums;
    for (std::size_t i = 1; i < kCategories; ++i) {
      sums.emplace_back(name_of(static_cast<Category>(i)), bytes_[i]);
    }
    sums.emplace_back("unknown", bytes_[static_cast<std::size_t>(Category::kUnknown)]);
    return sums;
  }

 private:
  std::array<std::uint64_t, kCategories> bytes_{};
};

// The categories of the blocks that were live at the peak.
[[nodiscard]] inline CategorySums categories_of(const Holders& holders) {
  CategorySums sums;
  for (const auto& [holder, tally] : holders) sums.add(holder.guess.category, tally.bytes);
  return sums;
}

// The bytes by category, only of blocks whose category the program itself named.
[[nodiscard]] inline rows::NamedNumbers exact_categories_of(const Holders& holders) {
  constexpr std::array kTold = {Category::kParameter, Category::kGradient,
                                Category::kOptimizerState, Category::kBuffer};
  rows::NamedNumbers sums;
  for (const Category category : kTold) {
    std::uint64_t bytes = 0;
    for (const auto& [holder, tally] : holders) {
      if (holder.guess == CategoryGuess{category, Confidence::kExact}) bytes += tally.bytes;
    }
    sums.emplace_back(name_of(category), bytes);
  }
  return sums;
}

// The layer that a named tensor belongs to.
//
// "h.3.mlp.c_fc.weight" -> "h.3.mlp.c_fc"; empty for a tensor of the model itself.
[[nodiscard]] inline std::string layer_of_tensor(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

}  // namespace gpumemtrace::analyzer
