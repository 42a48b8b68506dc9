// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/module_map.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/owners/owners.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string build_id_of(const trace::Module& record) {
  const std::uint64_t words[] = {record.build_id_0, record.build_id_1, record.build_id_2};
  std::string bytes(std::min<std::size_t>(record.build_id_bytes, sizeof words), '\0');
  std::memcpy(bytes.data(), words, bytes.size());
  return bytes;
}

}  // namespace

// Not an unnamed namespace: the class Index, which a header declares, has members of these types.
namespace modules_by_time {

// A module that contains an address, and how badly it fits a time; the smallest candidate fits
// best. First come modules that were loaded at that time, the newest first; then those that were
// seen later, the earliest first; then those that were unloaded before, the last first. Among
// equals the module that begins last is best.
struct Candidate {
  int misfit = 0;
  std::uint64_t distance = 0;
  std::uint64_t before_end = 0;  // distance from the module's begin to the end of the address space
  const LoadedModule* module = nullptr;
};

Candidate candidate_of(std::uint64_t begin, const LoadedModule& module, std::uint64_t time) {
  if (module.loaded > time) return {1, module.loaded - time, ~begin, &module};
  if (module.unloaded <= time) return {2, time - module.unloaded, ~begin, &module};
  return {0, time - module.loaded, ~begin, &module};
}

void take_better(Candidate& best, const Candidate& other) {
  const auto place = [](const Candidate& candidate) {
    return std::tuple(candidate.misfit, candidate.distance, candidate.before_end);
  };
  if (best.module == nullptr || place(other) < place(best)) best = other;
}

struct Unloaded {
  std::uint64_t begin = 0;
  const LoadedModule* module = nullptr;
};

// A set of modules that contain the same addresses; finds the one that fits a time best.
class Times {
 public:
  void add(const Unloaded& module) { by_loaded_.push_back({module.module->loaded, module}); }
  void sort() {
    for (const Moment& moment : by_loaded_) {
      by_unloaded_.push_back({moment.entry.module->unloaded, moment.entry});
    }
    std::ranges::sort(by_loaded_, {}, &Times::in_order);
    std::ranges::sort(by_unloaded_, {}, &Times::in_order);
    find_present();
  }
  void find(std::uint64_t time, Candidate& best) const {
    const auto consider = [&](const Moment& moment) {
      if (moment.entry.module == nullptr) return;
      take_better(best, candidate_of(moment.entry.begin, *moment.entry.module, time));
    };
    const auto later = std::ranges::upper_bound(by_loaded_, time, {}, &Moment::time);
    if (later != by_loaded_.end()) consider(*later);
    const auto gone = std::ranges::upper_bound(by_unloaded_, time, {}, &Moment::time);
    if (gone != by_unloaded_.begin()) {
      // If several modules were the last to be unloaded, takes the one that begins last.
      consider(*std::ranges::lower_bound(by_unloaded_, std::prev(gone)->time, {}, &Moment::time));
    }
    const auto present = std::ranges::upper_bound(present_, time, {}, &Moment::time);
    if (present != present_.begin()) consider(*std::prev(present));
  }

 private:
  struct Moment {
    std::uint64_t time = 0;
    Unloaded entry;
  };
  static std::pair<std::uint64_t, std::uint64_t> in_order(const Moment& moment) {
    return {moment.time, ~moment.entry.begin};
  }

  // Finds for each time at which a module was loaded or unloaded the newest module that is loaded
  // from then on.
  void find_present() {
    const auto is_newer = [](const Moment& a, const Moment& b) {
      return std::tuple(~a.time, ~a.entry.begin, a.entry.module) <
             std::tuple(~b.time, ~b.entry.begin, b.entry.module);
    };
    std::set<Moment, decltype(is_newer)> there(is_newer);
    auto gone = by_unloaded_.begin();
    const auto note = [&](std::uint64_t time) {
      present_.push_back({time, there.empty() ? Unloaded() : there.begin()->entry});
    };
    const auto remove_until = [&](std::uint64_t time) {
      for (; gone != by_unloaded_.end() && gone->time <= time; ++gone) {
        there.erase({gone->entry.module->loaded, gone->entry});
        note(gone->time);
      }
    };
    for (const Moment& moment : by_loaded_) {
      remove_until(moment.time);
      if (moment.entry.module->unloaded > moment.time) there.insert(moment);
      note(moment.time);
    }
    remove_until(LoadedModule::kStillLoaded);
  }

  std::vector<Moment> by_loaded_;
  std::vector<Moment> by_unloaded_;
  std::vector<Moment> present_;  // if the module is nullptr, none is loaded from that time on
};

}  // namespace modules_by_time

// A segment tree over the addresses at which modules begin and end. A node has the modules that
// cover its whole range of addresses but not that of its parent: a module is in at most two nodes
// of each level.
class ModuleMap::Index {
 public:
  using Unloaded = modules_by_time::Unloaded;

  explicit Index(std::vector<Unloaded> modules) : modules_(std::move(modules)) {
    for (const auto& [begin, module] : modules_) {
      bounds_.push_back(begin);
      bounds_.push_back(module->end);
    }
    std::ranges::sort(bounds_);
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    nodes_.resize(2 * bounds_.size());
    for (const Unloaded& module : modules_) add(module);
    for (modules_by_time::Times& times : nodes_) times.sort();
  }

  [[nodiscard]] const std::vector<Unloaded>& modules() const { return modules_; }
  // Replaces `best` if a module fits the address and time better.
  void find(std::uint64_t address, std::uint64_t time, modules_by_time::Candidate& best) const {
    const auto next = std::ranges::upper_bound(bounds_, address);
    if (next == bounds_.begin()) return;
    for (std::size_t node = leaf_of(next) - 1; node > 0; node /= 2) nodes_[node].find(time, best);
  }

 private:
  // The leaf for the addresses from this bound up to the next one.
  [[nodiscard]] std::size_t leaf_of(std::vector<std::uint64_t>::const_iterator bound) const {
    return bounds_.size() + static_cast<std::size_t>(bound - bounds_.begin());
  }
  void add(const Unloaded& module) {
    std::size_t first = leaf_of(std::ranges::lower_bound(bounds_, module.begin));
    std::size_t end = leaf_of(std::ranges::lower_bound(bounds_, module.module->end));
    for (; first < end; first /= 2, end /= 2) {
      if (first % 2 == 1) nodes_[first++].add(module);
      if (end % 2 == 1) nodes_[--end].add(module);
    }
  }

  std::vector<Unloaded> modules_;
  std::vector<std::uint64_t> bounds_;
  std::vector<modules_by_time::Times>
      nodes_;  // the children of node i are 2i and 2i + 1; the root is 1
};

ModuleMap::ModuleMap() = default;
ModuleMap::~ModuleMap() = default;
ModuleMap::ModuleMap(ModuleMap&& other) noexcept = default;
ModuleMap& ModuleMap::operator=(ModuleMap&& other) noexcept = default;

// Marks the module as unloaded; returns the iterator to the next one that is still loaded. The
// module is merged with all indexes up to the first gap, as a binary counter is incremented.
ModuleMap::StillLoaded::iterator ModuleMap::unload(StillLoaded::iterator module,
                                                   std::uint64_t time) {
  module->second->unloaded = time;
  std::vector<Index::Unloaded> together = {{module->first, module->second}};
  std::size_t level = 0;
  for (; level < unloaded_.size() && unloaded_[level] != nullptr; ++level) {
    const std::vector<Index::Unloaded>& more = unloaded_[level]->modules();
    together.insert(together.end(), more.begin(), more.end());
    unloaded_[level].reset();
  }
  if (level == unloaded_.size()) unloaded_.emplace_back();
  unloaded_[level] = std::make_unique<const Index>(std::move(together));
  return still_loaded_.erase(module);
}

void ModuleMap::add(const trace::Module& record, std::string_view path) {
  const auto known = still_loaded_.find(record.begin);
  if (record.unloaded != 0) {
    if (known != still_loaded_.end()) unload(known, record.record.time);
    return;
  }
  LoadedModule module;
  module.identity = {std::string(path), build_id_of(record)};
  module.base = record.base;
  module.end = record.end;
  module.loaded = record.record.time;
  if (known != still_loaded_.end() && known->second->identity == module.identity)
    return;  // the record repeats that this module is loaded
  LoadedModule& added = modules_.emplace(record.begin, std::move(module))->second;
  if (record.end <= record.begin) return;
  // Modules that the new one overlaps are no longer loaded.
  auto over = still_loaded_.upper_bound(record.begin);
  if (over != still_loaded_.begin() && std::prev(over)->second->end > record.begin) --over;
  while (over != still_loaded_.end() && over->first < record.end) over = unload(over, added.loaded);
  still_loaded_[record.begin] = &added;
}

const LoadedModule* ModuleMap::find(std::uint64_t address, std::uint64_t time) const {
  modules_by_time::Candidate best;
  const auto next = still_loaded_.upper_bound(address);
  if (next != still_loaded_.begin() && address < std::prev(next)->second->end) {
    best = modules_by_time::candidate_of(std::prev(next)->first, *std::prev(next)->second, time);
  }
  for (const auto& index : unloaded_) {
    if (index != nullptr) index->find(address, time, best);
  }
  return best.module;
}

std::string_view ModuleMap::find_by_name(std::string_view name_prefix) const {
  for (const auto& [begin, module] : modules_) {
    if (base_name(module.identity.path).starts_with(name_prefix)) return module.identity.path;
  }
  return {};
}

void NativeStacks::add(const trace::Stack& record) {
  const auto addresses = trace::native_frames_of(record);
  if (addresses.empty()) return;
  stacks_[record.id] = {record.record.time, {addresses.begin(), addresses.end()}};
}

std::span<const std::uint64_t> NativeStacks::addresses_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  return found->second.addresses;
}

std::uint64_t NativeStacks::time_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  return found == stacks_.end() ? 0 : found->second.time;
}

}  // namespace gpumemtrace::analyzer
