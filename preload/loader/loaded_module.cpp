// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/loaded_module.hpp"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#include <atomic>

#include "preload/base/byte_reader.hpp"
#include "preload/base/checked_memory.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/base/sections.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/loader_list.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kFirstPageBytes = 4096;

// The answer of _dl_find_object() in glibc 2.35 and later (struct dl_find_object of dlfcn.h, which
// older headers do not have).
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  link_map* map;
  void* eh_frame;
  unsigned long long reserved[7];
};
using FindObject = int (*)(void* address, FoundObject* result);

constinit FindObject loader_find_object = nullptr;

// The address range of the main program if there are gaps between its segments, as LLD leaves them;
// empty if there are none. For a program with gaps the loader answers with one segment, not with
// the whole range (_dlfo_process_initial() in glibc's dl-find_object.c). Libraries have no gaps,
// because the loader reserves one range of addresses for each.
constinit AddressRange program_with_gaps = {0, 0};

// The unwind tables with the file-backed part of the segment that they lie in.
UnwindTables find_tables(std::uint64_t base, const ProgramHeaders& program) noexcept {
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < program.count; ++i) {
    if (program.headers[i].p_type == PT_GNU_EH_FRAME) address = program.headers[i].p_vaddr;
  }
  UnwindTables tables;
  const ElfW(Phdr)* segment = segment_with(program.headers, program.count, address, 1);
  if (address == 0 || segment == nullptr) return tables;
  tables.header = reinterpret_cast<const std::uint8_t*>(base + address);
  tables.begin = reinterpret_cast<const std::uint8_t*>(base + segment->p_vaddr);
  tables.end = tables.begin + segment->p_filesz;
  return tables;
}

// Asks the loader. The begin and the end are those of the whole file.
bool ask_loader(std::uint64_t address, FoundObject& found) noexcept {
  if (loader_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
  if (program_with_gaps.contains(address)) {
    found.map_start = reinterpret_cast<void*>(program_with_gaps.begin);
    found.map_end = reinterpret_cast<void*>(program_with_gaps.end);
  }
  return true;
}

// Sets program_with_gaps if the range that the loader gives for the program's entry point begins
// after the program's first segment.
void look_for_gaps_in_program() noexcept {
  FoundObject found;
  dl_phdr_info info = {};
  info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  info.dlpi_phnum = static_cast<ElfW(Half)>(getauxval(AT_PHNUM));
  if (info.dlpi_phdr == nullptr || !ask_loader(getauxval(AT_ENTRY), found)) return;
  info.dlpi_addr = found.map->l_addr;
  const AddressRange range = range_of(info);
  if (reinterpret_cast<std::uintptr_t>(found.map_start) > range.begin) program_with_gaps = range;
}

// The list of modules for older loaders: two copies, sorted by address. A reader takes the
// published copy and checks afterwards that this copy is still the published one.
constexpr std::size_t kMaxListed = 4096;
struct ModuleList {
  LoadedModule modules[kMaxListed];
  std::size_t count;
};
struct Lists {
  ModuleList copies[2];
};
constinit Lists* lists = nullptr;
// Counts publications; its lowest bit is the index of the published copy. 0: nothing is published.
constinit std::atomic<std::uint64_t> published = 0;
// The value of unloads.count when the published copy was made.
constinit std::atomic<std::uint32_t> published_unloads = 0;
// The number of unloaded files that the loader counted (dlpi_subs), as of the last unload_ends().
constinit std::atomic<std::uint32_t> loader_unloads = 0;

void add_module(const dl_phdr_info& info, ModuleList& list) noexcept {
  LoadedModule module;
  module.base = info.dlpi_addr;
  const AddressRange range = range_of(info);
  module.begin = range.begin;
  module.end = range.end;
  module.path = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  module.unwind = find_tables(module.base, {info.dlpi_phdr, info.dlpi_phnum});
  std::size_t i = list.count++;
  for (; i > 0 && list.modules[i - 1].begin > module.begin; --i) {
    list.modules[i] = list.modules[i - 1];
  }
  list.modules[i] = module;
}

bool search(const ModuleList& list, std::uint64_t address, LoadedModule& out) noexcept {
  std::size_t first = 0;
  std::size_t last = list.count < kMaxListed ? list.count : kMaxListed;
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (list.modules[middle].end <= address) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  if (first >= kMaxListed || first >= list.count) return false;
  out = list.modules[first];
  return address >= out.begin && address < out.end;
}

}  // namespace

[[GPUMEMTRACE_HOT_DATA]] constinit Unloads unloads = {};

bool find_listed_module(std::uint64_t address, LoadedModule& out) noexcept {
  // Acquire: pairs with the store in publish_module_list().
  const std::uint64_t publication_number = published.load(std::memory_order_acquire);
  if (publication_number == 0 || unloads.running.load() != 0 ||
      published_unloads.load() != unloads.count.load()) {
    return false;
  }
  const bool found = search(lists->copies[publication_number & 1], address, out);
  // Adds 0, to read `published` again. Only a read-modify-write can have release order, which keeps
  // the reads of the list before this one.
  return found && published.fetch_add(0, std::memory_order_acq_rel) == publication_number;
}

// Fills the unpublished copy of the list and publishes it, unless a library is unloaded meanwhile.
void publish_module_list(const LoaderList& modules) noexcept {
  if (lists == nullptr) {
    lists = static_cast<Lists*>(map_zeros(sizeof(Lists)));
    if (lists == nullptr) return;
  }
  const std::uint32_t unloads_before = unloads.count.load();
  const std::uint64_t publication_number = published.load() + 1;
  ModuleList& list = lists->copies[publication_number & 1];
  list.count = 0;
  const auto add = [&](const dl_phdr_info& info) noexcept {
    if (list.count == kMaxListed) return true;
    add_module(info, list);
    return false;
  };
  (void)modules.visit(add, LoaderList::Names::kLoaders);
  if (unloads.running.load() != 0 || unloads.count.load() != unloads_before) return;
  // The number is stored before the count. A reader between or across the two stores may have
  // - the new number and the old count: it searches the new copy only if the old count is still
  //   that of all unloads, so nothing was unloaded since the old copy was made, nor since the new;
  // - the old number and the new count: after the new count it sees the new number, or a later one,
  //   in the last check, which fails;
  // - the old number and the old count: the old copy is right if that is the count of all unloads.
  // In the other order, a reader with the old number and the new count could search the old copy,
  // which may have an unloaded file, and make its last check before the new number is stored.
  published.store(publication_number, std::memory_order_release);  // see find_listed_module()
  published_unloads.store(unloads_before);
}

void choose_module_lookup() noexcept {
  if (loader_find_object != nullptr) return;  // a forked child has its parent's pointer
  void* found = find_symbol("libc.so.6", "_dl_find_object");
  if (found == nullptr) found = find_symbol("ld-linux", "_dl_find_object");
  loader_find_object = reinterpret_cast<FindObject>(found);
  if (loader_find_object != nullptr) look_for_gaps_in_program();
}

void publish_modules(const LoaderList& modules) noexcept {
  if (loader_find_object == nullptr) publish_module_list(modules);
}

bool find_module(std::uint64_t address, LoadedModule& out) noexcept {
  if (loader_find_object == nullptr) return find_listed_module(address, out);
  FoundObject found;
  if (!ask_loader(address, found)) return false;
  out.base = found.map->l_addr;
  out.begin = reinterpret_cast<std::uintptr_t>(found.map_start);
  out.end = reinterpret_cast<std::uintptr_t>(found.map_end);
  out.path = found.map->l_name == nullptr ? "" : found.map->l_name;
  out.unwind = find_tables(out.base, program_headers_at(out.begin));
  return true;
}

std::uint64_t find_module_begin(std::uint64_t address) noexcept {
  if (loader_find_object == nullptr) {
    LoadedModule listed;
    return find_listed_module(address, listed) ? listed.begin : 0;
  }
  FoundObject found;
  if (!ask_loader(address, found)) return 0;
  return reinterpret_cast<std::uintptr_t>(found.map_start);
}

void unload_begins() noexcept { unloads.running.fetch_add(1); }

// Counts an unload only if the loader's own count of unloaded files (dlpi_subs) has grown: a
// dlclose may leave its library loaded.
void unload_ends() noexcept {
  std::uint32_t count = 0;
  (void)find_loaded([&](const dl_phdr_info& any) noexcept {
    count = static_cast<std::uint32_t>(any.dlpi_subs);
    return true;
  });
  std::uint32_t known = loader_unloads.load();
  while (known < count && !loader_unloads.compare_exchange_weak(known, count)) {
  }
  if (known < count) unloads.count.fetch_add(1);
  unloads.running.fetch_sub(1);
}

void unload_was_noticed() noexcept { unloads.count.fetch_add(1); }

ProgramHeaders program_headers_at(std::uint64_t begin) noexcept {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(begin);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(ElfW(Phdr)) ||
      header->e_phoff >= kFirstPageBytes ||
      header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > kFirstPageBytes) {
    return {};
  }
  return {reinterpret_cast<const ElfW(Phdr)*>(begin + header->e_phoff), header->e_phnum};
}

namespace {

constexpr std::size_t kMaxNoteBytes = 1024;

// Searches the notes of one segment for the build-id.
bool find_in_notes(native::ByteReader notes, std::uint64_t alignment, BuildId& id) noexcept {
  // Padding after the name aligns header and name together, because the header's 12 bytes are no
  // multiple of 8.
  constexpr std::uint64_t kHeaderBytes = 12;
  const auto padded = [&](std::uint64_t bytes) noexcept {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  while (notes.ok() && !notes.at_end()) {
    const auto name_bytes = notes.fixed<std::uint32_t>();
    const auto content_bytes = notes.fixed<std::uint32_t>();
    const auto type = notes.fixed<std::uint32_t>();
    const native::ByteReader name = notes.part(padded(kHeaderBytes + name_bytes) - kHeaderBytes);
    const native::ByteReader content = notes.part(content_bytes);
    const std::uint64_t gap = padded(content_bytes) - content_bytes;
    notes.skip(gap < notes.left() ? gap : notes.left());
    if (!notes.ok() || type != NT_GNU_BUILD_ID || name_bytes != sizeof ELF_NOTE_GNU ||
        memcmp(name.position(), ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) != 0) {
      continue;
    }
    id.bytes = content_bytes;
    memcpy(id.content, content.position(),
           content_bytes < BuildId::kMaxBytes ? content_bytes : BuildId::kMaxBytes);
    return true;
  }
  return false;
}

// `read` copies memory, and returns whether it could.
template <class Read>
BuildId find(std::uint64_t base, const ElfW(Phdr) * headers, std::size_t count,
             Read&& read) noexcept {
  BuildId id;
  for (std::size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& part = headers[i];
    std::uint8_t notes[kMaxNoteBytes];
    if (part.p_type != PT_NOTE || part.p_memsz > sizeof notes ||
        segment_with(headers, count, part.p_vaddr, part.p_memsz) == nullptr ||
        !read(reinterpret_cast<const void*>(base + part.p_vaddr), notes, part.p_memsz)) {
      continue;
    }
    if (find_in_notes({notes, notes + part.p_memsz}, part.p_align == 8 ? 8 : 4, id)) break;
  }
  return id;
}

}  // namespace

BuildId find_build_id(std::uint64_t base, const ElfW(Phdr) * headers, std::size_t count) noexcept {
  return find(base, headers, count, [](const void* address, void* out, std::size_t bytes) noexcept {
    return read_through_kernel(address, out, bytes);
  });
}

BuildId find_build_id(const LoadedModule& module) noexcept {
  const ProgramHeaders program = program_headers_at(module.begin);
  return find(module.base, program.headers, program.count,
              [](const void* address, void* out, std::size_t bytes) noexcept {
                memcpy(out, address, bytes);
                return true;
              });
}

}  // namespace gpumemtrace::preload
