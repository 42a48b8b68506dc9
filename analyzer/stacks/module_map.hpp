// SPDX-License-Identifier: Apache-2.0
// Which file lay where in a process's address space, and when.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

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
// its time belongs to the next one that was seen there.
// The first question after a record sorts all that are known; so questions are best asked when the
// records are in.
class ModuleMap {
 public:
  static constexpr std::uint64_t kLatest = LoadedModule::kStillLoaded - 1;

  ModuleMap();
  ~ModuleMap();
  ModuleMap(ModuleMap&& other) noexcept;
  ModuleMap& operator=(ModuleMap&& other) noexcept;

  void add(const trace::Module& record, std::string_view path);

  // nullptr where no module was ever seen around the address.
  [[nodiscard]] const LoadedModule* find(std::uint64_t address, std::uint64_t time) const;
  // A loaded file whose name begins so, or empty.
  [[nodiscard]] std::string_view find_by_name(std::string_view name_prefix) const;

 private:
  class Index;
  using Modules = std::multimap<std::uint64_t, LoadedModule>;  // by first address

  Modules modules_;
  std::unordered_map<std::uint64_t, Modules::iterator> still_loaded_;  // by first address
  mutable std::unique_ptr<const Index> index_;                         // made when it is asked for
};

}  // namespace gpumemtrace::analyzer
