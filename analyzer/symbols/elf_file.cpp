// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/elf_file.hpp"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

// Compressed symbol tables of the largest libraries unpack to some 20 MiB.
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
  // A file in memory is such a table itself; it has none of its own.
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

}  // namespace gpumemtrace::analyzer
