// SPDX-License-Identifier: Apache-2.0
#include "preload/session/cupti_libraries.hpp"

#include <link.h>
#include <string.h>

#include "cupti/collection.hpp"
#include "cupti/spin_lock.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/segments.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr char kFilePrefix[] = "libcupti";
constexpr char kMarkSymbol[] = "cuptiActivityRegisterCallbacks";
// Triton's profiler. It opens a libcupti of its own when it is used.
constexpr char kProton[] = "libproton.so";
constexpr std::size_t kMaxPath = 512;

struct Copy {
  void* mark = nullptr;  // address of kMarkSymbol: tells a file from one loaded in its place
  ElfLibrary symbols;
  char path[kMaxPath] = {};
  cupti::Library library;
};

struct Copies {
  Copy entries[cupti::kMostLibraries];
  std::size_t count = 0;
  cupti::SpinLock lock;
};
constinit Copies copies;

// The entry of a loaded file, made where there is none yet; nullptr where the file is no libcupti
// or there are too many.
Copy* entry_of(const dl_phdr_info& info) noexcept {
  if (info.dlpi_name == nullptr || !has_prefix(file_name_of(info.dlpi_name), kFilePrefix)) {
    return nullptr;
  }
  ElfLibrary symbols;
  if (!read_library(info, symbols)) return nullptr;
  void* const mark = symbol_of(symbols, kMarkSymbol);
  if (mark == nullptr) return nullptr;
  const cupti::SpinGuard guard(copies.lock);
  for (std::size_t i = 0; i < copies.count; ++i) {
    if (copies.entries[i].mark == mark) return &copies.entries[i];
  }
  if (copies.count == cupti::kMostLibraries) return nullptr;
  Copy& copy = copies.entries[copies.count];
  copy.mark = mark;
  copy.symbols = symbols;
  strncpy(copy.path, info.dlpi_name, kMaxPath - 1);
  cupti::Functions functions;
  cupti::load(functions, [&](const char* name) noexcept { return symbol_of(symbols, name); });
  copy.library.found(functions, copies.count, cupti::the_collection());
  ++copies.count;
  return &copy;
}

struct AllCopies {
  Copy* entries[cupti::kMostLibraries] = {};
  std::size_t count = 0;
  const char* proton = nullptr;
};

AllCopies find_all() noexcept {
  AllCopies all;
  (void)find_loaded([&](const dl_phdr_info& info) noexcept {
    if (info.dlpi_name == nullptr) return false;
    if (has_prefix(file_name_of(info.dlpi_name), kProton)) all.proton = info.dlpi_name;
    Copy* const copy = entry_of(info);
    if (copy != nullptr && all.count < cupti::kMostLibraries) all.entries[all.count++] = copy;
    return false;
  });
  return all;
}

// Calls visit(info) for the file around the address.
template <class Visit>
void visit_around(const void* address, Visit&& visit) noexcept {
  (void)find_loaded([&](const dl_phdr_info& info) noexcept {
    if (!range_of(info).contains(reinterpret_cast<std::uintptr_t>(address))) return false;
    visit(info);
    return true;
  });
}

// Library is a member of Copy.
const Copy& copy_of(const cupti::Library& library) noexcept {
  return copies.entries[library.index()];
}

}  // namespace

cupti::Library* cupti_library_around(const void* address) noexcept {
  Copy* found = nullptr;
  visit_around(address, [&](const dl_phdr_info& info) noexcept { found = entry_of(info); });
  return found == nullptr ? nullptr : &found->library;
}

cupti::Library* cupti_library_for(const void* caller) noexcept {
  const AllCopies all = find_all();
  if (all.count == 0) return nullptr;
  if (all.count == 1) return &all.entries[0]->library;
  Copy* found = nullptr;
  const auto look_at = [&](const char* needed) noexcept {
    for (std::size_t i = 0; i < all.count && found == nullptr; ++i) {
      if (has_prefix(file_name_of(all.entries[i]->path), needed)) found = all.entries[i];
    }
  };
  visit_around(caller, [&](const dl_phdr_info& info) noexcept { for_each_needed(info, look_at); });
  return found == nullptr ? &all.entries[0]->library : &found->library;
}

LoadedCupti look_for_cupti() noexcept {
  const AllCopies all = find_all();
  LoadedCupti loaded;
  loaded.other = all.count > 1 ? all.entries[1]->path : all.proton;
  if (all.count == 0) return loaded;
  Copy* chosen = all.entries[0];
  // Another copy cannot be used any more once the program has registered with one.
  for (std::size_t i = 0; i < all.count; ++i) {
    if (!all.entries[i]->library.program_has_callbacks()) continue;
    chosen = all.entries[i];
    loaded.other = nullptr;
  }
  loaded.library = &chosen->library;
  return loaded;
}

void* symbol_of(const cupti::Library& library, const char* name) noexcept {
  return symbol_of(copy_of(library).symbols, name);
}

const char* path_of(const cupti::Library& library) noexcept { return copy_of(library).path; }

void reset_cupti_libraries() noexcept {
  copies.lock.free_in_child();
  for (std::size_t i = 0; i < copies.count; ++i) copies.entries[i].library.reset();
}

}  // namespace gpumemtrace::preload
