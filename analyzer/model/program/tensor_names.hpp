// SPDX-License-Identifier: Apache-2.0
// The program's names of its tensors, by the framework's block that holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/program/categories.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// One tensor, by the numbers of its texts (trace::Name).
struct TensorName {
  trace::TensorRole role = trace::TensorRole::kUnknown;
  std::uint32_t name = 0;
  std::uint32_t state = 0;
  std::uint32_t layer = 0;
  std::uint64_t bytes = 0;  // of its storage, as the program asked for it

  friend auto operator<=>(const TensorName&, const TensorName&) = default;
};

[[nodiscard]] Category category_of(trace::TensorRole role);

// - A name holds for the block that lives at its address when it is recorded, over its whole life;
//   a later block there has no name until one is recorded.
// - The names of one block have a number, which is the same for every block with the same names; 0
//   = none. Memory grows with the tensors of the program, not with how often they are named.
class TensorNames {
 public:
  // A block's first names; further names of a flat one are not kept.
  static constexpr std::size_t kMaxNames = 1024;

  void add(const LiveAllocation& block, const trace::Tensor& record);
  [[nodiscard]] std::uint32_t find(const LiveAllocation& block) const;
  // A block of this place and size was named a gradient: one from there between backward and
  // zero_grad is likely one, too.
  [[nodiscard]] bool is_gradient_place(std::uint32_t group, std::uint64_t bytes) const {
    return gradient_places_.count({group, bytes}) != 0;
  }

  [[nodiscard]] bool empty() const { return sets_.empty(); }
  // All names of a block, first the one that decides its category. A parameter that is listed in an
  // optimizer's state as well is a parameter.
  [[nodiscard]] const std::vector<TensorName>& names(std::uint32_t number) const {
    return *sets_[number - 1];
  }

 private:
  struct NamedBlock {
    std::uint64_t address = 0;
    std::uint64_t born = 0;
    std::uint32_t number = 0;
  };
  [[nodiscard]] std::uint32_t number_of(const std::vector<TensorName>& names);

  FlatMap<NamedBlock, &NamedBlock::address> blocks_;
  std::map<std::vector<TensorName>, std::uint32_t> numbers_;
  std::vector<const std::vector<TensorName>*> sets_;  // keys of numbers_
  std::set<std::pair<std::uint32_t, std::uint64_t>> gradient_places_;
};

}  // namespace gpumemtrace::analyzer
