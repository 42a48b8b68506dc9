// SPDX-License-Identifier: Apache-2.0
// A loaded file around an address, found without the loader's locks: its segments, unwind tables
// and build-id.
#pragma once

#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

class LoaderList;

struct AddressRange {
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  [[nodiscard]] bool contains(std::uint64_t address) const noexcept {
    return address >= begin && address < end;
  }
};

// From the first to the last address of the file's segments.
inline AddressRange range_of(const dl_phdr_info& info) noexcept {
  AddressRange range;
  for (std::size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t begin = info.dlpi_addr + segment.p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + segment.p_memsz > range.end) range.end = begin + segment.p_memsz;
  }
  return range;
}

// The readable segment whose file-backed part has these bytes; nullptr if no segment has them.
// `address` is a virtual address as in the file, without the load address.
inline const ElfW(Phdr) * segment_with(const ElfW(Phdr) * headers, std::size_t count,
                                       std::uint64_t address, std::uint64_t bytes) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& segment = headers[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_R) != 0 && address >= segment.p_vaddr &&
        bytes <= segment.p_filesz && address - segment.p_vaddr <= segment.p_filesz - bytes) {
      return &segment;
    }
  }
  return nullptr;
}

// A module's unwind tables in memory; preload/native reads their content. Nothing outside [begin,
// end), the segment that holds them, is read.
struct UnwindTables {
  const std::uint8_t* header = nullptr;  // PT_GNU_EH_FRAME
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
};

// Addresses and path are valid while the module stays loaded.
struct LoadedModule {
  std::uint64_t base = 0;   // load address of the file's virtual address 0
  std::uint64_t begin = 0;  // first and last + 1 address of its segments
  std::uint64_t end = 0;
  const char* path = nullptr;  // the loader's text; empty for the program itself
  UnwindTables unwind;
};

// Finds the module whose segments surround the address. The module must stay loaded meanwhile, as
// it does while one of its functions is on the stack. Any thread, signal handlers too; no lock.
// With glibc 2.35 and later the function asks the loader. With older glibc it uses the list of
// publish_modules(); from the start of an unload until the next publish_modules() it finds nothing.
[[nodiscard]] bool find_module(std::uint64_t address, LoadedModule& out) noexcept;

// The start of the module around the address; 0 if none is found. Reads nothing of the module, so
// it may be unloaded meanwhile.
[[nodiscard]] std::uint64_t find_module_begin(std::uint64_t address) noexcept;

// Finds the loader's function. Called before the first use of find_module() in the process.
void choose_module_lookup() noexcept;

// Makes the list for older loaders, a no-op with newer ones. One thread at a time.
void publish_modules(const LoaderList& modules) noexcept;

// Called around every dlclose. Data derived from a module's tables must not be used while a dlclose
// runs, and must be forgotten when unload_count() has changed; a dlclose that unloads nothing does
// not change the count. Call unload_is_running() first, then unload_count().
void unload_begins() noexcept;
void unload_ends() noexcept;
// Called when a library is gone although no dlclose was seen: libc unloads its own libraries
// without dlclose.
void unload_was_noticed() noexcept;
struct Unloads {
  std::atomic<std::uint32_t> running;
  std::atomic<std::uint32_t> count;
};
extern constinit Unloads unloads [[gnu::visibility("hidden")]];

// If a thread runs code of a new library at an old library's address, the new library was loaded
// after the old one was unmapped. So the thread, if it calls these two functions in this order,
// sees either that an unload is running or the new count.
[[nodiscard]] inline bool unload_is_running() noexcept {
  return unloads.running.load(std::memory_order_acquire) != 0;  // pairs with unload_ends()
}
inline std::uint32_t unload_count() noexcept {
  // Relaxed: the acquire load in an earlier unload_is_running() orders this load.
  return unloads.count.load(std::memory_order_relaxed);
}

// The program headers of a loaded file, which begins in memory with its ELF header; none if the
// headers are not mapped there. The file must stay loaded meanwhile.
struct ProgramHeaders {
  const ElfW(Phdr) * headers = nullptr;
  std::size_t count = 0;
};
ProgramHeaders program_headers_at(std::uint64_t begin) noexcept;

// find_module() and publish_modules() as with a glibc before 2.35: they use the list of modules and
// never ask the loader. Declared for tests.
[[nodiscard]] bool find_listed_module(std::uint64_t address, LoadedModule& out) noexcept;
void publish_module_list(const LoaderList& modules) noexcept;

// The build-id of a file: the first kMaxBytes of its NT_GNU_BUILD_ID note, as many as a Module
// record has room for. It shows which file has the symbols for an address in a trace.
struct BuildId {
  static constexpr std::size_t kMaxBytes = 24;
  std::uint8_t content[kMaxBytes] = {};
  std::uint32_t bytes = 0;  // bytes of the note; 0 = the file has no build-id
};

// Reads the build-id by program headers that stay readable; the file itself may be unloaded
// meanwhile. For any thread.
BuildId find_build_id(std::uint64_t base, const ElfW(Phdr) * headers, std::size_t count) noexcept;
// Reads the build id of a file that must stay loaded meanwhile.
BuildId find_build_id(const LoadedModule& module) noexcept;

}  // namespace gpumemtrace::preload
