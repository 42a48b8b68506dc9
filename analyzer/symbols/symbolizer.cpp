// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/symbolizer.hpp"

#include <algorithm>
#include <string_view>

#include "analyzer/symbols/readable_name.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The most later functions that may lie inside the function that contains the address.
constexpr int kMaxNestedFunctions = 16;

// In the order of addresses; of several names of one address the best comes last.
bool stands_before(const ElfFunction& a, const ElfFunction& b) {
  if (a.begin != b.begin) return a.begin < b.begin;
  if (a.rank != b.rank) return a.rank < b.rank;
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  return std::string_view(b.name) < std::string_view(a.name);
}

}  // namespace

ModuleSymbols::ModuleSymbols(FoundFiles found) : files_(std::move(found.files)) {
  for (const auto& file : files_) {
    file->add_functions(functions_);
    if (lines_ == nullptr && file->dwarf() != nullptr) {
      lines_ = std::make_unique<DwarfLines>(file->dwarf());
    }
  }
  std::sort(functions_.begin(), functions_.end(), stands_before);
}

const ElfFunction* ModuleSymbols::find_function(std::uint64_t offset) const {
  auto position = std::ranges::upper_bound(functions_, offset, {}, &ElfFunction::begin);
  for (int i = 0; i < kMaxNestedFunctions && position != functions_.begin(); ++i) {
    --position;
    const bool reaches_next = position->bytes == 0 && i == 0;
    if (reaches_next || offset - position->begin < position->bytes) return &*position;
  }
  return nullptr;
}

std::vector<SymbolFrame> ModuleSymbols::frames_at(std::uint64_t offset) {
  std::vector<SymbolFrame> frames;
  if (lines_ != nullptr) frames = lines_->frames_at(offset);
  const ElfFunction* function = find_function(offset);
  if (function == nullptr) return frames;
  if (frames.empty()) frames.emplace_back();
  // The symbol's name is complete; debug information may leave out the namespaces.
  frames.back().function = readable_name(function->name);
  return frames;
}

Symbolizer::Symbolizer(const SymbolOptions& options)
    : enabled_(options.enabled), files_(options.folders, options.use_debuginfod) {
  for (const std::filesystem::path& path : options.side_cars) told_.read(path);
}

const std::vector<SymbolFrame>& Symbolizer::frames_at(const ModuleIdentity& module,
                                                      std::uint64_t offset) {
  const std::vector<SymbolFrame>* known = answers_.find(module, offset);
  if (known != nullptr) return *known;
  return answers_.add(module, offset, look_up(module, offset));
}

std::vector<SymbolFrame> Symbolizer::look_up(const ModuleIdentity& module, std::uint64_t offset) {
  if (!enabled_) return {};
  const std::vector<SymbolFrame>* told =
      module.build_id.empty() ? nullptr : told_.find(module, offset);
  if (told != nullptr) return *told;
  auto found = modules_.find(module);
  if (found == modules_.end()) {
    FoundFiles files = files_.find(module);
    if (files.files.empty())
      ++(files.another_file_is_there ? mismatched_modules_ : missing_modules_);
    found = modules_.try_emplace(module, std::move(files)).first;
  }
  return found->second.frames_at(offset);
}

}  // namespace gpumemtrace::analyzer
