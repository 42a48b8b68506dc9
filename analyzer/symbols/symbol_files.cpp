// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/symbol_files.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpumemtrace::analyzer {
namespace {

namespace fs = std::filesystem;

// A trace keeps the first bytes of longer ones.
constexpr std::size_t kMostRecordedBytes = 24;

const fs::path kSystemDebugFolder = "/usr/lib/debug";

bool is_same(const std::string& recorded, const std::string& found) {
  return recorded == found.substr(0, kMostRecordedBytes);
}

// `ab/cdef`, the file's place in a tree of build-ids.
fs::path build_id_path(const std::string& build_id) {
  const std::string digits = hexadecimal(build_id);
  return fs::path(digits.substr(0, 2)) / digits.substr(2);
}

fs::path with_suffix(fs::path path, const char* suffix) {
  path += suffix;
  return path;
}

// The few functions of elfutils/debuginfod.h that are needed. The library is opened when it is
// asked for: it brings half a dozen others, and most machines do not have it.
struct Debuginfod {
  void* handle = nullptr;
  void* (*begin)() = nullptr;
  int (*find)(void* client, const unsigned char* build_id, int bytes, char** path) = nullptr;
  void (*end)(void* client) = nullptr;

  Debuginfod() : handle(dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) return;
    begin = reinterpret_cast<decltype(begin)>(dlsym(handle, "debuginfod_begin"));
    find = reinterpret_cast<decltype(find)>(dlsym(handle, "debuginfod_find_debuginfo"));
    end = reinterpret_cast<decltype(end)>(dlsym(handle, "debuginfod_end"));
  }
  [[nodiscard]] bool is_usable() const {
    return begin != nullptr && find != nullptr && end != nullptr;
  }
};

// Asks the servers in DEBUGINFOD_URLS for debug information, through the system's libdebuginfod.
// Returns the path of the downloaded file; empty if the library is missing, no server is named or
// none has the file. Uses the network.
fs::path download_debug_info(const std::string& build_id) {
  static const Debuginfod library;
  if (!library.is_usable() || build_id.empty()) return {};
  void* client = library.begin();
  if (client == nullptr) return {};
  char* path = nullptr;
  const int file = library.find(client, reinterpret_cast<const unsigned char*>(build_id.data()),
                                static_cast<int>(build_id.size()), &path);
  fs::path found;
  if (file >= 0) {
    close(file);
    if (path != nullptr) found = path;
  }
  std::free(path);
  library.end(client);
  return found;
}

}  // namespace

std::string hexadecimal(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

SymbolFiles::SymbolFiles(std::vector<fs::path> folders, bool use_debuginfod)
    : folders_(std::move(folders)), use_debuginfod_(use_debuginfod) {}

std::vector<fs::path> SymbolFiles::code_candidates(const ModuleIdentity& module) const {
  const fs::path path(module.path);
  std::vector<fs::path> candidates = {path};
  // In other places only a build-id shows that a file is the right one.
  if (module.build_id.empty()) return candidates;
  for (const fs::path& folder : folders_) {
    candidates.push_back(folder / ".build-id" / build_id_path(module.build_id));
    candidates.push_back(folder / path.relative_path());
    candidates.push_back(folder / path.filename());
  }
  return candidates;
}

std::vector<fs::path> SymbolFiles::debug_candidates(const ModuleIdentity& module,
                                                    const std::string& debug_link) const {
  const fs::path path(module.path);
  const fs::path by_id = with_suffix(build_id_path(module.build_id), ".debug");
  const fs::path link = fs::path(debug_link).filename();
  const fs::path debug_name = link.empty() ? with_suffix(path.filename(), ".debug") : link;
  std::vector<fs::path> candidates;
  for (const fs::path& folder : folders_) {
    candidates.push_back(folder / ".build-id" / by_id);
    candidates.push_back(folder / debug_name);
  }
  candidates.push_back(path.parent_path() / debug_name);
  candidates.push_back(path.parent_path() / ".debug" / debug_name);
  candidates.push_back(kSystemDebugFolder / ".build-id" / by_id);
  candidates.push_back(kSystemDebugFolder / path.parent_path().relative_path() / debug_name);
  return candidates;
}

FoundFiles SymbolFiles::find(const ModuleIdentity& module) const {
  FoundFiles found;
  std::string debug_link;
  bool has_lines = false;
  const auto take = [&](const fs::path& candidate) {
    std::unique_ptr<ElfFile> file = ElfFile::open(candidate);
    if (file == nullptr) return false;
    if (!is_same(module.build_id, file->build_id())) {
      if (candidate == fs::path(module.path)) found.another_file_is_there = true;
      return false;
    }
    if (debug_link.empty()) debug_link = file->debug_link();
    has_lines = has_lines || file->dwarf() != nullptr;
    found.files.push_back(std::move(file));
    return true;
  };
  const std::vector<fs::path> code = code_candidates(module);
  (void)std::any_of(code.begin(), code.end(), take);
  if (has_lines || module.build_id.empty()) return found;
  const std::vector<fs::path> debug = debug_candidates(module, debug_link);
  const bool has_debug_file = std::any_of(debug.begin(), debug.end(), take);
  if (!has_debug_file && use_debuginfod_) {
    const fs::path downloaded = download_debug_info(module.build_id);
    if (!downloaded.empty()) (void)take(downloaded);
  }
  return found;
}

}  // namespace gpumemtrace::analyzer
