// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/built_classes.hpp"

namespace gpumemtrace::analyzer {

std::uint32_t BuiltClasses::class_of(std::string_view method, std::string_view file) {
  const std::size_t dot = method.rfind('.');
  if (dot == std::string_view::npos) return 0;
  std::string key(file);
  key += '\n';
  key += method.substr(0, dot);
  const auto next = static_cast<std::uint32_t>(kinds_.size());
  const auto [found, added] = numbers_.try_emplace(std::move(key), next);
  if (added) kinds_.push_back(ClassKind::kUnknown);
  return found->second;
}

}  // namespace gpumemtrace::analyzer
