// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/elf_symbols.hpp"

#include <string.h>
#include <sys/auxv.h>

#include <cstddef>

#include "preload/base/checked_memory.hpp"
#include "preload/loader/loader_list.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxSymbolBytes = 256;
// Limits of valid tables. A larger table is read no further.
constexpr std::size_t kMaxDynamicEntries = 4096;
constexpr std::uint32_t kMaxSymbols = 1 << 20;
constexpr std::uint32_t kMaxSymbolsOfBucket = 4096;

// Does not call strcmp: libc's dlsym is found by this comparison, and a sanitizer's runtime, which
// intercepts strcmp, asks dlsym for libc's strcmp before its own works.
bool is_same_text(const char* a, const char* b) noexcept {
  for (; *a == *b; ++a, ++b) {
    if (*a == '\0') return true;
  }
  return false;
}

// Two ways to read a library's memory: directly, and through the kernel (Checked) if the library
// may be unloaded meanwhile.
struct Straight {
  template <class Value>
  static bool read(const Value* address, Value& out) noexcept {
    out = *address;
    return true;
  }
  static bool is_text(const char* address, const char* text) noexcept {
    return is_same_text(address, text);
  }
};
struct Checked {
  template <class Value>
  static bool read(const Value* address, Value& out) noexcept {
    return read_through_kernel(address, out);
  }
  static bool is_text(const char* address, const char* text) noexcept {
    char found[kMaxSymbolBytes];
    const std::size_t bytes = strlen(text) + 1;
    return bytes <= sizeof found && read_through_kernel(address, found, bytes) &&
           memcmp(found, text, bytes) == 0;
  }
};

// glibc relocates the pointers of the dynamic section of most libraries, but not of all (vDSO).
template <class Pointer>
Pointer table_address(ElfW(Addr) base, ElfW(Addr) value) noexcept {
  return reinterpret_cast<Pointer>(value < base ? base + value : value);
}

// The address is computed as an integer: damaged tables lead anywhere, also past the last address.
template <class Value>
const Value* element_of(const Value* table, std::uint64_t index) noexcept {
  return reinterpret_cast<const Value*>(reinterpret_cast<std::uintptr_t>(table) +
                                        index * sizeof(Value));
}

template <class Memory>
bool read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * table, ElfLibrary& library) noexcept {
  for (std::size_t i = 0; i < kMaxDynamicEntries; ++i) {
    ElfW(Dyn) entry;
    if (!Memory::read(element_of(table, i), entry) || entry.d_tag == DT_NULL) break;
    const ElfW(Addr) value = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRTAB) library.strings = table_address<const char*>(base, value);
    if (entry.d_tag == DT_SYMTAB) library.symbols = table_address<const ElfW(Sym)*>(base, value);
    if (entry.d_tag == DT_GNU_HASH) {
      library.gnu_hash = table_address<const std::uint32_t*>(base, value);
    }
    if (entry.d_tag == DT_HASH) {
      library.sysv_hash = table_address<const std::uint32_t*>(base, value);
    }
  }
  return library.strings != nullptr && library.symbols != nullptr;
}

template <class Memory>
bool read_tables(const dl_phdr_info& info, ElfLibrary& library) noexcept {
  library = ElfLibrary{};
  library.base = info.dlpi_addr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* at = reinterpret_cast<const ElfW(Dyn)*>(library.base + info.dlpi_phdr[i].p_vaddr);
    return read_dynamic<Memory>(library.base, at, library);
  }
  return false;
}

// True if `found` is the wanted symbol, is defined, and is not that of a resolver (IFUNC): only the
// loader knows which function a resolver chooses.
template <class Memory>
bool is_wanted(const ElfLibrary& library, const ElfW(Sym) & found, const char* symbol) noexcept {
  return found.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(found.st_info) != STT_GNU_IFUNC &&
         Memory::is_text(element_of(library.strings, found.st_name), symbol);
}

// The GNU hash section: header of four words, Bloom filter, buckets, chains (see the glibc loader's
// description of DT_GNU_HASH).
template <class Memory>
bool find_gnu(const ElfLibrary& library, const char* symbol, ElfW(Sym) & found) noexcept {
  struct Header {
    std::uint32_t buckets;
    std::uint32_t first_symbol;
    std::uint32_t bloom_words;
    std::uint32_t bloom_shift;
  } header;
  if (!Memory::read(reinterpret_cast<const Header*>(library.gnu_hash), header)) return false;
  if (header.buckets == 0) return false;
  std::uint32_t hash = 5381;
  for (const char* c = symbol; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t* buckets = element_of(
      library.gnu_hash, 4 + header.bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t)));
  const std::uint32_t* chain = element_of(buckets, header.buckets);
  std::uint32_t first = 0;
  if (!Memory::read(element_of(buckets, hash % header.buckets), first)) return false;
  if (first < header.first_symbol) return false;
  for (std::uint32_t i = 0; i < kMaxSymbolsOfBucket; ++i) {
    const std::uint32_t index = first + i;
    std::uint32_t entry = 0;
    if (!Memory::read(element_of(chain, index - header.first_symbol), entry)) return false;
    if ((entry | 1u) == (hash | 1u)) {
      if (!Memory::read(element_of(library.symbols, index), found)) return false;
      if (is_wanted<Memory>(library, found, symbol)) return true;
    }
    if ((entry & 1u) != 0) return false;
  }
  return false;
}

// Searches all symbols one by one: the DT_HASH section is read only for their number.
template <class Memory>
bool find_sysv(const ElfLibrary& library, const char* symbol, ElfW(Sym) & found) noexcept {
  std::uint32_t symbols = 0;
  if (!Memory::read(element_of(library.sysv_hash, 1), symbols)) return false;
  if (symbols > kMaxSymbols) return false;
  for (std::uint32_t index = 1; index < symbols; ++index) {
    if (!Memory::read(element_of(library.symbols, index), found)) return false;
    if (is_wanted<Memory>(library, found, symbol)) return true;
  }
  return false;
}

template <class Memory>
void* look_up(const ElfLibrary& library, const char* symbol) noexcept {
  ElfW(Sym) found = {};
  const bool is_found = library.gnu_hash != nullptr    ? find_gnu<Memory>(library, symbol, found)
                        : library.sysv_hash != nullptr ? find_sysv<Memory>(library, symbol, found)
                                                       : false;
  return is_found ? reinterpret_cast<void*>(library.base + found.st_value) : nullptr;
}

// The head of the loader's list of files, by the program headers that the kernel gave the program.
const link_map* first_loaded() noexcept {
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const std::size_t count = segments == nullptr ? 0 : getauxval(AT_PHNUM);
  ElfW(Addr) base = 0;
  const ElfW(Phdr)* dynamic = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if (segments[i].p_type == PT_PHDR) {
      base = reinterpret_cast<ElfW(Addr)>(segments) - segments[i].p_vaddr;
    }
    if (segments[i].p_type == PT_DYNAMIC) dynamic = segments + i;
  }
  if (dynamic == nullptr) return nullptr;
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(base + dynamic->p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_DEBUG) continue;
    const auto* const list = reinterpret_cast<const r_debug*>(entry->d_un.d_ptr);
    return list == nullptr ? nullptr : list->r_map;
  }
  return nullptr;
}

}  // namespace

bool has_prefix(const char* text, const char* prefix) noexcept {
  for (; *prefix != '\0'; ++text, ++prefix) {
    if (*text != *prefix) return false;
  }
  return true;
}

const char* file_name_of(const char* path) noexcept {
  const char* name = path;
  for (; *path != '\0'; ++path) {
    if (*path == '/') name = path + 1;
  }
  return name;
}

bool find_library(const char* file_name_prefix, const char* symbol, ElfLibrary& library) noexcept {
  return find_loaded([&](const dl_phdr_info& info) noexcept {
    ElfLibrary tables;
    if (info.dlpi_name == nullptr || !has_prefix(file_name_of(info.dlpi_name), file_name_prefix) ||
        !read_tables<Straight>(info, tables) || look_up<Straight>(tables, symbol) == nullptr) {
      return false;
    }
    library = tables;
    return true;
  });
}

bool read_library(const dl_phdr_info& info, ElfLibrary& library) noexcept {
  return read_tables<Straight>(info, library);
}

void* symbol_of(const ElfLibrary& library, const char* symbol) noexcept {
  return look_up<Straight>(library, symbol);
}

void* find_symbol_at_start(const char* file_name_prefix, const char* symbol) noexcept {
  for (const link_map* entry = first_loaded(); entry != nullptr; entry = entry->l_next) {
    if (!has_prefix(file_name_of(entry->l_name), file_name_prefix)) continue;
    ElfLibrary library;
    library.base = entry->l_addr;
    return read_dynamic<Straight>(library.base, entry->l_ld, library) ? symbol_of(library, symbol)
                                                                      : nullptr;
  }
  return nullptr;
}

void* find_symbol(const char* file_name_prefix, const char* symbol) noexcept {
  ElfLibrary library;
  return find_library(file_name_prefix, symbol, library) ? symbol_of(library, symbol) : nullptr;
}

void* find_symbol_behind(const void* ours, const char* symbol) noexcept {
  void* behind = nullptr;
  (void)find_loaded([&](const dl_phdr_info& info) noexcept {
    ElfLibrary library;
    void* const found =
        read_tables<Straight>(info, library) ? look_up<Straight>(library, symbol) : nullptr;
    if (found != ours) behind = found;
    return behind != nullptr;
  });
  return behind;
}

void* find_symbol_checked(const dl_phdr_info& info, const char* symbol) noexcept {
  ElfLibrary library;
  return read_tables<Checked>(info, library) ? look_up<Checked>(library, symbol) : nullptr;
}

void* find_symbol(const LoaderList& modules, const char* symbol) noexcept {
  void* found = nullptr;
  (void)modules.visit([&](const dl_phdr_info& info) noexcept {
    found = find_symbol_checked(info, symbol);
    return found != nullptr;
  });
  return found;
}

}  // namespace gpumemtrace::preload
