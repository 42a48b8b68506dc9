// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/tensor_names.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

Category category_of(trace::TensorRole role) {
  switch (role) {
    case trace::TensorRole::kParameter:
      return Category::kParameter;
    case trace::TensorRole::kGradient:
      return Category::kGradient;
    case trace::TensorRole::kOptimizerState:
      return Category::kOptimizerState;
    case trace::TensorRole::kBuffer:
      return Category::kBuffer;
    case trace::TensorRole::kUnknown:
      break;
  }
  return Category::kUnknown;
}

void TensorNames::add(const LiveAllocation& block, const trace::Tensor& record) {
  if (category_of(record.role) == Category::kUnknown) return;  // of a later version
  const TensorName name{record.role, record.name, record.state, record.layer, record.bytes};
  const std::uint32_t known = find(block);
  std::vector<TensorName> all;
  if (known != 0) all = names(known);
  if (all.size() == kMaxNames || std::ranges::find(all, name) != all.end()) return;
  // Names of one role stay in the order in which they came.
  const auto after = std::ranges::upper_bound(all, name.role, {}, &TensorName::role);
  all.insert(after, name);
  if (name.role == trace::TensorRole::kGradient) {
    gradient_places_.insert({block.group, block.bytes});
  }
  NamedBlock* entry = blocks_.find(block.address);
  if (entry == nullptr) entry = blocks_.add(block.address);
  *entry = {block.address, block.born, number_of(all)};
}

std::uint32_t TensorNames::find(const LiveAllocation& block) const {
  const NamedBlock* const entry = blocks_.find(block.address);
  return entry == nullptr || entry->born != block.born ? 0 : entry->number;
}

std::uint32_t TensorNames::number_of(const std::vector<TensorName>& names) {
  const auto next = static_cast<std::uint32_t>(sets_.size() + 1);
  const auto [found, added] = numbers_.try_emplace(names, next);
  if (added) sets_.push_back(&found->first);
  return found->second;
}

}  // namespace gpumemtrace::analyzer
