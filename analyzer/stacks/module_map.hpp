// SPDX-License-Identifier: Apache-2.0
// The files that are or were mapped into a process's address space, by address and time.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/symbols/symbol_files.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct LoadedModule {
  static constexpr std::uint64_t kStillLoaded = std::numeric_limits<std::uint64_t>::max();

  ModuleIdentity identity;
  std::uint64_t base = 0;  // load address of the file's virtual address 0
  std::uint64_t end = 0;
  std::uint64_t loaded = 0;  // the time at which the module was first seen, in ticks
  std::uint64_t unloaded = kStillLoaded;
};

// Finds modules by address and time. Records may come in any order, but a module's loading must
// come before its unloading. Modules are seen only some time after they were loaded and unloaded,
// so an address in no module at its time belongs to the next module that was seen there. A module
// that is loaded over another one ends that one.
class ModuleMap {
 public:
  static constexpr std::uint64_t kLatest = LoadedModule::kStillLoaded - 1;

  ModuleMap();
  ~ModuleMap();
  ModuleMap(ModuleMap&& other) noexcept;
  ModuleMap& operator=(ModuleMap&& other) noexcept;

  void add(const trace::Module& record, std::string_view path);

  // The module that fits best; nullptr if no module was ever seen around the address.
  [[nodiscard]] const LoadedModule* find(std::uint64_t address, std::uint64_t time) const;
  // A loaded file whose name begins with the prefix; empty if there is none.
  [[nodiscard]] std::string_view find_by_name(std::string_view name_prefix) const;

 private:
  class Index;
  using Modules = std::multimap<std::uint64_t, LoadedModule>;  // all modules, by first address
  using StillLoaded = std::map<std::uint64_t, LoadedModule*>;

  StillLoaded::iterator unload(StillLoaded::iterator module, std::uint64_t time);

  Modules modules_;
  StillLoaded still_loaded_;  // the loaded modules, by first address; they do not overlap
  // Indexes of the unloaded modules: the index at position i has 2^i modules, or is nullptr. So a
  // module is sorted again only as often as the number of modules doubles.
  std::vector<std::unique_ptr<const Index>> unloaded_;
};

// The native parts of a process's stacks: return addresses, and the time at which they were
// recorded.
class NativeStacks {
 public:
  // Takes a Stack record; keeps it if it has native frames.
  void add(const trace::Stack& record);

  // The return addresses, innermost first; empty for kNone and for stacks without native frames.
  [[nodiscard]] std::span<const std::uint64_t> addresses_of(trace::StackId stack) const;
  // The time, in ticks, at which the stack was first recorded; its modules are looked up at that
  // time.
  [[nodiscard]] std::uint64_t time_of(trace::StackId stack) const;
  // Calls visit(id) for every recorded stack.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, stack] : stacks_) visit(id);
  }

 private:
  struct Stack {
    std::uint64_t time = 0;
    std::vector<std::uint64_t> addresses;
  };
  std::map<trace::StackId, Stack> stacks_;
};

}  // namespace gpumemtrace::analyzer
