// SPDX-License-Identifier: Apache-2.0
// The files in a process's address space, with their addresses and times.
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
  std::uint64_t loaded = 0;  // when it was first seen, in ticks
  std::uint64_t unloaded = kStillLoaded;
};

// Takes records in any order that has a module's loading before its unloading. Modules are seen
// some time after they were loaded and after they were unloaded, so an address that lay in none at
// its time belongs to the next one that was seen there. A module that is loaded over another ends
// it.
class ModuleMap {
 public:
  static constexpr std::uint64_t kLatest = LoadedModule::kStillLoaded - 1;

  ModuleMap();
  ~ModuleMap();
  ModuleMap(ModuleMap&& other) noexcept;
  ModuleMap& operator=(ModuleMap&& other) noexcept;

  void add(const trace::Module& record, std::string_view path);

  // nullptr if no module was ever seen around the address.
  [[nodiscard]] const LoadedModule* find(std::uint64_t address, std::uint64_t time) const;
  // A loaded file whose name begins so, or empty.
  [[nodiscard]] std::string_view find_by_name(std::string_view name_prefix) const;

 private:
  class Index;
  using Modules = std::multimap<std::uint64_t, LoadedModule>;  // by first address
  using StillLoaded = std::map<std::uint64_t, LoadedModule*>;

  StillLoaded::iterator unload(StillLoaded::iterator module, std::uint64_t time);

  Modules modules_;
  StillLoaded still_loaded_;  // by first address; none lies over another
  // The others: the index at i is of 2^i of them, or there is none. So each is sorted again as
  // often as their number doubles.
  std::vector<std::unique_ptr<const Index>> unloaded_;
};

// The native halves of a process's stacks: return addresses, and the time of their recording.
class NativeStacks {
 public:
  // Keeps stacks with native frames.
  void add(const trace::Stack& record);

  // Innermost first; empty for kNone and for stacks without native frames.
  [[nodiscard]] std::span<const std::uint64_t> addresses_of(trace::StackId stack) const;
  // When the stack was first met, in ticks; modules are looked up at that time.
  [[nodiscard]] std::uint64_t time_of(trace::StackId stack) const;
  // Every recorded stack.
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
