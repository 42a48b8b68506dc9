#include "preload/elf_symbols.hpp"

#include <elf.h>
#include <link.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {
namespace {

// The parts of a library's dynamic section that a look-up needs.
struct DynamicTables {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* sysv_hash = nullptr;
};

// glibc relocates the pointers of the dynamic section of most libraries, not of all (vDSO).
template <class Pointer>
Pointer table_address(ElfW(Addr) base, ElfW(Addr) value) noexcept {
  return reinterpret_cast<Pointer>(value < base ? base + value : value);
}

DynamicTables read_tables(const dl_phdr_info& info) noexcept {
  DynamicTables tables;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Addr) base = info.dlpi_addr;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(base + info.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) tables.strings = table_address<const char*>(base, value);
      if (entry->d_tag == DT_SYMTAB) {
        tables.symbols = table_address<const ElfW(Sym)*>(base, value);
      }
      if (entry->d_tag == DT_GNU_HASH) {
        tables.gnu_hash = table_address<const std::uint32_t*>(base, value);
      }
      if (entry->d_tag == DT_HASH) {
        tables.sysv_hash = table_address<const std::uint32_t*>(base, value);
      }
    }
  }
  return tables;
}

bool defines(const DynamicTables& tables, std::uint32_t index, const char* symbol) noexcept {
  const ElfW(Sym)& entry = tables.symbols[index];
  return entry.st_shndx != SHN_UNDEF && strcmp(tables.strings + entry.st_name, symbol) == 0;
}

// The GNU hash section: header of four words, Bloom filter, buckets, chains (see the glibc loader's
// description of DT_GNU_HASH).
const ElfW(Sym) * find_gnu(const DynamicTables& tables, const char* symbol) noexcept {
  std::uint32_t hash = 5381;
  for (const char* c = symbol; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t buckets = tables.gnu_hash[0];
  const std::uint32_t first_symbol = tables.gnu_hash[1];
  const std::uint32_t bloom_words = tables.gnu_hash[2];
  if (buckets == 0) return nullptr;
  const std::uint32_t* bucket =
      tables.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t index = bucket[hash % buckets];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const std::uint32_t entry = chain[index - first_symbol];
    if ((entry | 1u) == (hash | 1u) && defines(tables, index, symbol)) {
      return &tables.symbols[index];
    }
    if ((entry & 1u) != 0) return nullptr;
  }
}

const ElfW(Sym) * find_sysv(const DynamicTables& tables, const char* symbol) noexcept {
  const std::uint32_t symbols = tables.sysv_hash[1];
  for (std::uint32_t index = 1; index < symbols; ++index) {
    if (defines(tables, index, symbol)) return &tables.symbols[index];
  }
  return nullptr;
}

struct Search {
  const char* file_name_prefix;
  const char* symbol;
  void* found = nullptr;
};

int visit_library(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& search = *static_cast<Search*>(argument);
  if (info->dlpi_name == nullptr) return 0;
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* file_name = slash == nullptr ? info->dlpi_name : slash + 1;
  if (strncmp(file_name, search.file_name_prefix, strlen(search.file_name_prefix)) != 0) return 0;
  const DynamicTables tables = read_tables(*info);
  if (tables.strings == nullptr || tables.symbols == nullptr) return 0;
  const ElfW(Sym)* symbol = nullptr;
  if (tables.gnu_hash != nullptr) {
    symbol = find_gnu(tables, search.symbol);
  } else if (tables.sysv_hash != nullptr) {
    symbol = find_sysv(tables, search.symbol);
  }
  if (symbol == nullptr) return 0;
  search.found = reinterpret_cast<void*>(info->dlpi_addr + symbol->st_value);
  return 1;
}

}  // namespace

void* find_symbol(const char* file_name_prefix, const char* symbol) noexcept {
  Search search{file_name_prefix, symbol};
  dl_iterate_phdr(visit_library, &search);
  return search.found;
}

}  // namespace gpumemtrace::preload
