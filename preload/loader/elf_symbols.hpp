// SPDX-License-Identifier: Apache-2.0
// Looks symbols up in loaded libraries through their own dynamic tables: without changing the text
// of dlerror(), and without running any code of the library.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

class LoaderList;

// The parts of a loaded library that a look-up needs.
struct ElfLibrary {
  std::uint64_t base = 0;
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* sysv_hash = nullptr;
};

// Calls visit(info) for each loaded file until `visit` returns true. Returns true if `visit` did.
// Takes the loader's lock for the list of files, as the unwinder of exceptions does.
template <class Visit>
[[nodiscard]] bool find_loaded(Visit visit) noexcept {
  const auto call = [](dl_phdr_info* info, std::size_t, void* argument) noexcept {
    return (*static_cast<Visit*>(argument))(*info) ? 1 : 0;
  };
  return dl_iterate_phdr(call, &visit) != 0;
}

// The first loaded library whose file name begins with `file_name_prefix` ("libc10.so") and that
// defines the symbol. False if there is none. Called on threads of the program only, which may hold
// locks of the program.
[[nodiscard]] bool find_library(const char* file_name_prefix, const char* symbol,
                                ElfLibrary& library) noexcept;

// Reads the tables of a loaded file; false if the file has none. It must stay loaded meanwhile.
[[nodiscard]] bool read_library(const dl_phdr_info& info, ElfLibrary& library) noexcept;

// has_prefix() and file_name_of() call no function of another library.
[[nodiscard]] bool has_prefix(const char* text, const char* prefix) noexcept;
[[nodiscard]] const char* file_name_of(const char* path) noexcept;

// Calls `visit` with the name of each file that the loaded file needs (DT_NEEDED).
template <class Visit>
void for_each_needed(const dl_phdr_info& info, Visit&& visit) noexcept {
  ElfLibrary library;
  if (!read_library(info, library)) return;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_NEEDED) visit(library.strings + entry->d_un.d_val);
    }
  }
}

// Address of a symbol in a library that stays loaded; nullptr if the library does not define the
// symbol. For any thread; no lock.
void* symbol_of(const ElfLibrary& library, const char* symbol) noexcept;

// Address of a symbol in a library that was loaded with the program and stays. Takes no lock and
// calls no function of another library: works while a sanitizer's runtime is still starting.
void* find_symbol_at_start(const char* file_name_prefix, const char* symbol) noexcept;

// Calls find_library() and then symbol_of().
void* find_symbol(const char* file_name_prefix, const char* symbol) noexcept;

// The first definition of the symbol, in any library, other than the one at `ours`; nullptr if
// there is none. Called on threads of the program only.
void* find_symbol_behind(const void* ours, const char* symbol) noexcept;

// Address of a symbol of a module that may be unloaded meanwhile, with something else at its
// address: its tables are read through the kernel and may hold anything. No lock; time is bounded.
void* find_symbol_checked(const dl_phdr_info& info, const char* symbol) noexcept;

// Searches several modules: the address of the symbol in the first that defines it.
void* find_symbol(const LoaderList& modules, const char* symbol) noexcept;

}  // namespace gpumemtrace::preload
