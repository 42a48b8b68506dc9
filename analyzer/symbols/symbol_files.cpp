// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/symbol_files.hpp"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

// The bounds for decompressing symbol tables; those of the largest libraries take some 20 MiB.
constexpr std::size_t kMaxUnpackedBytes = std::size_t{256} << 20;
constexpr std::uint64_t kMaxUnpackMemory = std::uint64_t{128} << 20;

std::uint8_t rank_of(const GElf_Sym& symbol) {
  switch (GELF_ST_BIND(symbol.st_info)) {
    case STB_GLOBAL:
      return 2;
    case STB_WEAK:
      return 1;
    default:
      return 0;
  }
}

void add_table(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
               std::vector<ElfFunction>& functions) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  const std::size_t count = data->d_size / header.sh_entsize;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) return;
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC) continue;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) continue;
    const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name == nullptr || name[0] == '\0') continue;
    functions.push_back({symbol.st_value, symbol.st_size, name, rank_of(symbol)});
  }
}

std::string unpack_xz(const Elf_Data& data) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMaxUnpackMemory, 0) != LZMA_OK) return {};
  stream.next_in = static_cast<const std::uint8_t*>(data.d_buf);
  stream.avail_in = data.d_size;
  std::string unpacked;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK && unpacked.size() < kMaxUnpackedBytes) {
    const std::size_t before = unpacked.size();
    unpacked.resize(before + (std::size_t{1} << 20));
    stream.next_out = reinterpret_cast<std::uint8_t*>(unpacked.data() + before);
    stream.avail_out = unpacked.size() - before;
    result = lzma_code(&stream, LZMA_FINISH);
    unpacked.resize(unpacked.size() - stream.avail_out);
  }
  lzma_end(&stream);
  return result == LZMA_STREAM_END ? std::move(unpacked) : std::string();
}

}  // namespace

std::unique_ptr<ElfFile> ElfFile::open(const std::filesystem::path& path) {
  static const unsigned known_version = elf_version(EV_CURRENT);
  if (known_version == EV_NONE) return nullptr;
  std::unique_ptr<ElfFile> opened(new ElfFile);
  opened->file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status;
  if (opened->file_ < 0 || fstat(opened->file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    return nullptr;
  }
  opened->elf_ = elf_begin(opened->file_, ELF_C_READ_MMAP, nullptr);
  if (opened->elf_ == nullptr || elf_kind(opened->elf_) != ELF_K_ELF) return nullptr;
  return opened;
}

std::unique_ptr<ElfFile> ElfFile::from_memory(std::string image) {
  std::unique_ptr<ElfFile> opened(new ElfFile);
  opened->image_ = std::move(image);
  opened->elf_ = elf_memory(opened->image_.data(), opened->image_.size());
  if (opened->elf_ == nullptr || elf_kind(opened->elf_) != ELF_K_ELF) return nullptr;
  return opened;
}

ElfFile::~ElfFile() {
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (elf_ != nullptr) elf_end(elf_);
  if (file_ >= 0) close(file_);
}

std::string ElfFile::build_id() const {
  const void* bytes = nullptr;
  const ssize_t count = dwelf_elf_gnu_build_id(elf_, &bytes);
  if (count <= 0) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(count)};
}

std::string ElfFile::debug_link() const {
  GElf_Word checksum = 0;
  const char* name = dwelf_elf_gnu_debuglink(elf_, &checksum);
  return name == nullptr ? std::string() : std::string(name);
}

Elf_Scn* ElfFile::find_section(const char* name) const {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) != 0) return nullptr;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf_, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* found = elf_strptr(elf_, names, header.sh_name);
    if (found != nullptr && std::strcmp(found, name) == 0) return section;
  }
  return nullptr;
}

void ElfFile::add_functions(std::vector<ElfFunction>& functions) {
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf_, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) {
      add_table(elf_, section, header, functions);
    }
  }
  if (mini_debug_ == nullptr) mini_debug_ = unpack_mini_debug_info();
  if (mini_debug_ != nullptr) mini_debug_->add_functions(functions);
}

std::unique_ptr<ElfFile> ElfFile::unpack_mini_debug_info() const {
  // An image in memory is itself unpacked from a .gnu_debugdata section; it has none of its own.
  if (!image_.empty()) return nullptr;
  Elf_Scn* section = find_section(".gnu_debugdata");
  const Elf_Data* data = section == nullptr ? nullptr : elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return nullptr;
  std::string image = unpack_xz(*data);
  return image.empty() ? nullptr : from_memory(std::move(image));
}

Dwarf* ElfFile::dwarf() {
  if (dwarf_ == nullptr &&
      (find_section(".debug_info") != nullptr || find_section(".zdebug_info") != nullptr)) {
    dwarf_ = dwarf_begin_elf(elf_, DWARF_C_READ, nullptr);
  }
  return dwarf_;
}

namespace {

namespace fs = std::filesystem;

// The bytes that a trace keeps of a build-id; longer ones are cut.
constexpr std::size_t kMostRecordedBytes = 24;

const fs::path kSystemDebugFolder = "/usr/lib/debug";

bool is_same(const std::string& recorded, const std::string& found) {
  return recorded == found.substr(0, kMostRecordedBytes);
}

// The path of a file in a tree of build-ids: `ab/cdef`.
fs::path build_id_path(const std::string& build_id) {
  const std::string digits = hexadecimal(build_id);
  return fs::path(digits.substr(0, 2)) / digits.substr(2);
}

fs::path with_suffix(fs::path path, const char* suffix) {
  path += suffix;
  return path;
}

// The functions of elfutils/debuginfod.h that are needed. The library is opened only when it is
// used: it loads half a dozen others, and most machines do not have it.
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
// no server has the file. Uses the network.
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
  // Without a build-id, only a file at the recorded path can be taken for the module's.
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
