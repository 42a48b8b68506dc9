// SPDX-License-Identifier: Apache-2.0
// Resolves the numbers in a process's records: modules, functions, texts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/stacks/module_map.hpp"
#include "analyzer/stacks/python_stacks.hpp"
#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::CallSite;

// The code that called an allocation or copy, in words of the user.
struct SiteName {
  std::string_view api;      // the CUDA function that was called
  std::string_view module;   // the module's path; empty = the caller lies in no known module
  std::uint64_t offset = 0;  // offset of the caller in the module
};

// Collects dictionary records in any order; answers are complete when all records are in.
class Dictionary {
 public:
  // Takes dictionary records and ignores the rest.
  void add(const trace::RecordHeader& record);
  // A number that changes whenever a record may have changed the names of known call sites.
  [[nodiscard]] std::uint64_t names_version() const { return names_version_; }

  [[nodiscard]] SiteName name_of(const CallSite& site) const;
  // The function that the user's code called: the runtime's, such as `cudaMalloc`, if a CUDA
  // runtime stood in between.
  [[nodiscard]] std::string_view function_of(const CallSite& site) const;
  // The recorded text for the key; empty if the process did not record it.
  [[nodiscard]] std::string text(trace::TextKey key) const;
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  // The lines of a text that was recorded in parts, each part one line.
  [[nodiscard]] std::vector<std::string> lines(trace::TextKey key) const;
  // The number of functions that the recorder wraps.
  [[nodiscard]] std::size_t function_count() const { return functions_.size(); }
  // A loaded file whose name begins with the prefix; empty if there is none.
  [[nodiscard]] std::string_view find_module(std::string_view name_prefix) const {
    return modules_.find_by_name(name_prefix);
  }
  [[nodiscard]] const ModuleMap& modules() const { return modules_; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& unwrapped() const { return unwrapped_; }
  [[nodiscard]] const PythonStacks& python_stacks() const { return python_stacks_; }
  [[nodiscard]] const NativeStacks& native_stacks() const { return native_stacks_; }

 private:
  struct Function {
    std::string symbol;
    std::string runtime_name;  // the CUDA runtime's function that calls `symbol`; empty = none
  };

  void add_text(const trace::Text& text);
  [[nodiscard]] const LoadedModule* module_of(std::uint64_t address) const {
    return modules_.find(address, ModuleMap::kLatest);
  }
  // The modules that a CUDA runtime is linked into.
  [[nodiscard]] const std::set<const LoadedModule*>& runtimes() const;

  ModuleMap modules_;
  std::map<std::uint16_t, Function> functions_;
  std::map<trace::TextKey, std::map<std::uint32_t, std::string>> texts_;
  std::vector<std::string> notes_;
  std::set<std::uint64_t> requesters_;
  mutable std::optional<std::set<const LoadedModule*>> runtimes_;  // computed when first asked for
  std::map<std::string, std::uint64_t> unwrapped_;
  PythonStacks python_stacks_;
  NativeStacks native_stacks_;
  std::uint64_t names_version_ = 0;
};

}  // namespace gpumemtrace::analyzer
