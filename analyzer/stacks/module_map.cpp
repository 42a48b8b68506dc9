// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/module_map.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string build_id_of(const trace::Module& record) {
  const std::uint64_t words[] = {record.build_id_0, record.build_id_1, record.build_id_2};
  std::string bytes(std::min<std::size_t>(record.build_id_bytes, sizeof words), '\0');
  std::memcpy(bytes.data(), words, bytes.size());
  return bytes;
}

// The smallest is the module that fits an address at a time best: first those that were there then,
// the newest first; then those that were seen later, the earliest first; then those that were gone,
// the last first.
std::pair<int, std::uint64_t> misfit_of(const LoadedModule& module, std::uint64_t time) {
  if (module.loaded > time) return {1, module.loaded - time};
  if (module.unloaded <= time) return {2, time - module.unloaded};
  return {0, time - module.loaded};
}

}  // namespace

void ModuleMap::add(const trace::Module& record, std::string_view path) {
  const auto [first, last] = modules_.equal_range(record.begin);
  const auto open = std::find_if(first, last, [](const auto& entry) {
    return entry.second.unloaded == LoadedModule::kStillLoaded;
  });
  if (record.unloaded != 0) {
    if (open != last) open->second.unloaded = record.record.time;
    return;
  }
  LoadedModule module;
  module.identity = {std::string(path), build_id_of(record)};
  module.base = record.base;
  module.end = record.end;
  module.loaded = record.record.time;
  if (open != last && open->second.identity == module.identity) return;  // told again
  if (open != last) open->second.unloaded = module.loaded;
  if (record.end > record.begin) most_bytes_ = std::max(most_bytes_, record.end - record.begin);
  modules_.emplace(record.begin, std::move(module));
}

const LoadedModule* ModuleMap::find(std::uint64_t address, std::uint64_t time) const {
  const LoadedModule* best = nullptr;
  for (auto position = modules_.upper_bound(address); position != modules_.begin();) {
    --position;
    if (address - position->first >= most_bytes_) break;
    const LoadedModule& module = position->second;
    if (address >= module.end) continue;
    if (best == nullptr || misfit_of(module, time) < misfit_of(*best, time)) best = &module;
  }
  return best;
}

std::string_view ModuleMap::find_by_name(std::string_view name_prefix) const {
  for (const auto& [begin, module] : modules_) {
    if (base_name(module.identity.path).starts_with(name_prefix)) return module.identity.path;
  }
  return {};
}

}  // namespace gpumemtrace::analyzer
