// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/symbolizer.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "analyzer/base/row_reader.hpp"
#include "analyzer/base/row_text.hpp"
#include "analyzer/symbols/readable_name.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr const char* kFormat = "gpumemtrace-symbols";
constexpr std::uint64_t kVersion = 1;

std::string key_of(const ModuleIdentity& module) {
  return module.build_id.empty() ? module.path : hexadecimal(module.build_id);
}

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

struct FrameRow {
  std::optional<std::string> function;
  std::optional<std::string> file;
  std::optional<std::uint64_t> line;

  static void fields(auto& self, auto& v) {
    v("function", self.function);
    v("file", self.file);
    v("line", self.line);
  }
};

struct ModuleRow {
  std::string build_id;
  std::string path;
  // For each offset, written in decimal digits: the frames of the code at it, innermost first.
  std::vector<std::pair<std::string, std::vector<FrameRow>>> offsets;

  static void fields(auto& self, auto& v) {
    v("build_id", self.build_id);
    v("path", self.path);
    v("offsets", self.offsets);
  }
};

struct SymbolsFile : FileMark {
  std::vector<ModuleRow> modules;

  static void fields(auto& self, auto& v) {
    FileMark::fields(self, v);
    v("modules", self.modules);
  }
};

FrameRow row_of(const SymbolFrame& frame) {
  FrameRow row;
  if (!frame.function.empty()) row.function = frame.function;
  if (!frame.file.empty()) row.file = frame.file;
  if (frame.line != 0) row.line = frame.line;
  return row;
}

SymbolFrame frame_of(const FrameRow& row) {
  return {row.function.value_or(""), row.file.value_or(""),
          static_cast<std::uint32_t>(row.line.value_or(0))};
}

std::uint64_t offset_of(const std::string& text) {
  std::uint64_t offset = 0;
  std::from_chars(text.data(), text.data() + text.size(), offset);
  return offset;
}

}  // namespace

void SideCar::read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("Cannot open " + path.string() + ": " + std::strerror(errno) + ".");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  SymbolsFile whole;
  FileMark mark;
  try {
    mark = row_of_text<FileMark>(text, "symbols");
    if (mark.format == kFormat && mark.version == kVersion) {
      whole = row_of_text<SymbolsFile>(text, "symbols");
    }
  } catch (const InputError& error) {
    throw InputError(path.string() + " is no file of symbols (" + error.what() +
                     "); make it with `gpumemtrace symbolize`.");
  }
  if (mark.format != kFormat || mark.version != kVersion) {
    throw InputError(path.string() +
                     " is no file of symbols of this version; make it with `gpumemtrace "
                     "symbolize`.");
  }
  for (const ModuleRow& module : whole.modules) {
    const ModuleIdentity identity{module.path, bytes_of(module.build_id)};
    if (identity.build_id.empty()) continue;
    for (const auto& [offset, frames] : module.offsets) {
      std::vector<SymbolFrame> named;
      for (const FrameRow& frame : frames) named.push_back(frame_of(frame));
      add(identity, offset_of(offset), std::move(named));
    }
  }
}

std::string SideCar::text() const {
  SymbolsFile whole{{kFormat, kVersion}, {}};
  for (const auto& [key, module] : modules_) {
    ModuleRow row{hexadecimal(module.identity.build_id), module.identity.path, {}};
    for (const auto& [offset, frames] : module.offsets) {
      std::vector<FrameRow> named;
      for (const SymbolFrame& frame : frames) named.push_back(row_of(frame));
      if (!named.empty()) row.offsets.emplace_back(std::to_string(offset), std::move(named));
    }
    const bool is_of_use = !row.offsets.empty() && !row.build_id.empty();
    if (is_of_use) whole.modules.push_back(std::move(row));
  }
  return json_text(whole, JsonLayout::kNarrow) + "\n";
}

const std::vector<SymbolFrame>* SideCar::find(const ModuleIdentity& module,
                                              std::uint64_t offset) const {
  const auto found = modules_.find(key_of(module));
  if (found == modules_.end()) return nullptr;
  const auto frames = found->second.offsets.find(offset);
  return frames == found->second.offsets.end() ? nullptr : &frames->second;
}

const std::vector<SymbolFrame>& SideCar::add(const ModuleIdentity& module, std::uint64_t offset,
                                             std::vector<SymbolFrame> frames) {
  Module& known = modules_[key_of(module)];
  known.identity = module;
  return known.offsets[offset] = std::move(frames);
}

std::uint64_t SideCar::offset_count() const {
  std::uint64_t count = 0;
  for (const auto& [key, module] : modules_) count += module.offsets.size();
  return count;
}

std::uint64_t SideCar::named_offset_count() const {
  std::uint64_t count = 0;
  for (const auto& [key, module] : modules_) {
    for (const auto& [offset, frames] : module.offsets) count += frames.empty() ? 0 : 1;
  }
  return count;
}

namespace {

// The most functions that find_function() tries, going back from the address: other functions may
// lie inside the function that contains it.
constexpr int kMaxNestedFunctions = 16;

// True if a comes before b: functions are sorted by address; of several names of one address the
// best one comes last (see ElfFunction::rank), because find_function() searches backwards.
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
    // A function of unknown size ends where the next one begins.
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
  // The name in the symbol table is complete, whereas debug information may leave out namespaces.
  frames.back().function = readable_name(function->name);
  return frames;
}

Symbolizer::Symbolizer(const SymbolOptions& options)
    : enabled_(options.enabled), files_(options.folders, options.use_debuginfod) {
  for (const std::filesystem::path& path : options.side_cars) names_from_sidecars_.read(path);
}

const std::vector<SymbolFrame>& Symbolizer::frames_at(const ModuleIdentity& module,
                                                      std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const std::vector<SymbolFrame>* known = answers_.find(module, offset);
  if (known != nullptr) return *known;
  return answers_.add(module, offset, look_up(module, offset));
}

// Looks the offset up in the side-cars (names_from_sidecars_), then in the module's files.
std::vector<SymbolFrame> Symbolizer::look_up(const ModuleIdentity& module, std::uint64_t offset) {
  if (!enabled_) return {};
  const std::vector<SymbolFrame>* told =
      module.build_id.empty() ? nullptr : names_from_sidecars_.find(module, offset);
  if (told != nullptr) return *told;
  auto found = modules_.find(module);
  if (found == modules_.end()) {
    FoundFiles files = files_.find(module);
    if (files.files.empty()) unnamed_modules_[module] = files.another_file_is_there;
    found = modules_.try_emplace(module, std::move(files)).first;
  }
  return found->second.frames_at(offset);
}

}  // namespace gpumemtrace::analyzer
