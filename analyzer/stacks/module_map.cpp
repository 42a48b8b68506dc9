// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/module_map.hpp"

#include <algorithm>
#include <compare>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string build_id_of(const trace::Module& record) {
  const std::uint64_t words[] = {record.build_id_0, record.build_id_1, record.build_id_2};
  std::string bytes(std::min<std::size_t>(record.build_id_bytes, sizeof words), '\0');
  std::memcpy(bytes.data(), words, bytes.size());
  return bytes;
}

}  // namespace

// Not unnamed: Index, which other files know of, has members of these types.
namespace modules_by_time {

// A module that lay around an address, and how well its time fits. The smallest is best: first
// those that were there then, the newest first; then those that were seen later, the earliest
// first; then those that were gone, the last first. Among equals the one that begins last.
struct Candidate {
  int misfit = 0;
  std::uint64_t distance = 0;
  std::size_t from_last = 0;  // counted from the module that begins last
  const LoadedModule* module = nullptr;

  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

// Of modules around the same addresses the one that fits a time best.
class Times {
 public:
  void add(const LoadedModule* module, std::size_t from_last) {
    by_loaded_.push_back({module->loaded, from_last, module});
    if (module->unloaded == LoadedModule::kStillLoaded) return;
    by_unloaded_.push_back({module->unloaded, from_last, module});
  }
  void sort() {
    std::ranges::sort(by_loaded_, {}, &Times::in_order);
    std::ranges::sort(by_unloaded_, {}, &Times::in_order);
    find_present();
  }
  // Puts into `best` what is better.
  void find(std::uint64_t time, Candidate& best) const {
    const auto later = std::ranges::upper_bound(by_loaded_, time, {}, &Moment::time);
    if (later != by_loaded_.end())
      take(best, {1, later->time - time, later->from_last, later->module});
    const auto gone = std::ranges::upper_bound(by_unloaded_, time, {}, &Moment::time);
    if (gone != by_unloaded_.begin()) {
      // Of those that went at the same time the one that begins last.
      const std::uint64_t last = std::prev(gone)->time;
      const Moment& moment = *std::ranges::lower_bound(by_unloaded_, last, {}, &Moment::time);
      take(best, {2, time - last, moment.from_last, moment.module});
    }
    const auto present = std::ranges::upper_bound(present_, time, {}, &Moment::time);
    if (present == present_.begin() || std::prev(present)->module == nullptr) return;
    const Moment& there = *std::prev(present);
    take(best, {0, time - there.module->loaded, there.from_last, there.module});
  }

 private:
  struct Moment {
    std::uint64_t time = 0;
    std::size_t from_last = 0;
    const LoadedModule* module = nullptr;
  };
  static std::pair<std::uint64_t, std::size_t> in_order(const Moment& moment) {
    return {moment.time, moment.from_last};
  }
  static void take(Candidate& best, const Candidate& other) {
    if (best.module == nullptr || other < best) best = other;
  }

  // From each moment on at which a module came or went: the newest of those that are there.
  void find_present() {
    const auto newest_first = [](const Moment& a, const Moment& b) {
      return a.time != b.time ? a.time > b.time : a.from_last < b.from_last;
    };
    std::set<Moment, decltype(newest_first)> there(newest_first);
    const auto note = [&](std::uint64_t time) {
      Moment present = there.empty() ? Moment() : *there.begin();
      present.time = time;
      present_.push_back(present);
    };
    auto gone = by_unloaded_.begin();
    const auto remove_until = [&](std::uint64_t time) {
      for (; gone != by_unloaded_.end() && gone->time <= time; ++gone) {
        there.erase({gone->module->loaded, gone->from_last, gone->module});
        note(gone->time);
      }
    };
    for (const Moment& moment : by_loaded_) {
      remove_until(moment.time);
      const bool stays = moment.module->unloaded > moment.time;
      if (stays) there.insert(moment);
      note(moment.time);
    }
    remove_until(LoadedModule::kStillLoaded);
  }

  std::vector<Moment> by_loaded_;
  std::vector<Moment> by_unloaded_;
  std::vector<Moment> present_;  // no module: none is there
};

}  // namespace modules_by_time

// A tree over the addresses at which modules begin and end. A node has the modules that lie around
// all of its addresses but not around all of its parent's: at most two a level for each module.
class ModuleMap::Index {
 public:
  explicit Index(const Modules& modules) {
    for (const auto& [begin, module] : modules) {
      if (module.end <= begin) continue;
      bounds_.push_back(begin);
      bounds_.push_back(module.end);
    }
    std::ranges::sort(bounds_);
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    nodes_.resize(2 * bounds_.size());
    std::size_t from_last = modules.size();
    for (const auto& [begin, module] : modules) {
      --from_last;
      if (module.end > begin) add(begin, module, from_last);
    }
    for (modules_by_time::Times& times : nodes_) times.sort();
  }

  [[nodiscard]] const LoadedModule* find(std::uint64_t address, std::uint64_t time) const {
    const auto next = std::ranges::upper_bound(bounds_, address);
    if (next == bounds_.begin()) return nullptr;
    modules_by_time::Candidate best;
    for (std::size_t node = leaf_of(next) - 1; node > 0; node /= 2) nodes_[node].find(time, best);
    return best.module;
  }

 private:
  // Leaf i has the addresses from bound i up to the next one.
  [[nodiscard]] std::size_t leaf_of(std::vector<std::uint64_t>::const_iterator bound) const {
    return bounds_.size() + static_cast<std::size_t>(bound - bounds_.begin());
  }
  void add(std::uint64_t begin, const LoadedModule& module, std::size_t from_last) {
    std::size_t first = leaf_of(std::ranges::lower_bound(bounds_, begin));
    std::size_t end = leaf_of(std::ranges::lower_bound(bounds_, module.end));
    for (; first < end; first /= 2, end /= 2) {
      if (first % 2 == 1) nodes_[first++].add(&module, from_last);
      if (end % 2 == 1) nodes_[--end].add(&module, from_last);
    }
  }

  std::vector<std::uint64_t> bounds_;
  std::vector<modules_by_time::Times>
      nodes_;  // the children of node i are 2i and 2i + 1; the root is 1
};

ModuleMap::ModuleMap() = default;
ModuleMap::~ModuleMap() = default;
ModuleMap::ModuleMap(ModuleMap&& other) noexcept = default;
ModuleMap& ModuleMap::operator=(ModuleMap&& other) noexcept = default;

void ModuleMap::add(const trace::Module& record, std::string_view path) {
  index_.reset();
  const auto open = still_loaded_.find(record.begin);
  if (record.unloaded != 0) {
    if (open == still_loaded_.end()) return;
    open->second->second.unloaded = record.record.time;
    still_loaded_.erase(open);
    return;
  }
  LoadedModule module;
  module.identity = {std::string(path), build_id_of(record)};
  module.base = record.base;
  module.end = record.end;
  module.loaded = record.record.time;
  if (open != still_loaded_.end()) {
    if (open->second->second.identity == module.identity) return;  // told again
    open->second->second.unloaded = module.loaded;
  }
  still_loaded_[record.begin] = modules_.emplace(record.begin, std::move(module));
}

const LoadedModule* ModuleMap::find(std::uint64_t address, std::uint64_t time) const {
  if (index_ == nullptr) index_ = std::make_unique<const Index>(modules_);
  return index_->find(address, time);
}

std::string_view ModuleMap::find_by_name(std::string_view name_prefix) const {
  for (const auto& [begin, module] : modules_) {
    if (base_name(module.identity.path).starts_with(name_prefix)) return module.identity.path;
  }
  return {};
}

}  // namespace gpumemtrace::analyzer
