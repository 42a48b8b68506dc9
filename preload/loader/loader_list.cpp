// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/loader_list.hpp"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "preload/base/checked_memory.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/files.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxModules = 8192;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxSegments = 128;
constexpr std::size_t kModulesAtOnce = 32;

// dl_iterate_phdr() calls this for the main program first.
int find_head(dl_phdr_info* program, std::size_t, void* argument) noexcept {
  auto& list = *static_cast<ListHead*>(argument);
  list.program_segments = program->dlpi_phdr;
  list.program_segment_count = program->dlpi_phnum;
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    if (program->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_DEBUG) list.head = reinterpret_cast<const r_debug*>(entry->d_un.d_ptr);
    }
  }
  return 1;
}

bool same(const link_map& a, const link_map& b) noexcept {
  return a.l_addr == b.l_addr && a.l_name == b.l_name && a.l_ld == b.l_ld && a.l_next == b.l_next &&
         a.l_prev == b.l_prev;
}

bool is_elf(const ElfW(Ehdr) & header) noexcept {
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_phentsize == sizeof(ElfW(Phdr)) &&
         header.e_phnum <= kMaxSegments;
}

}  // namespace

// Finds the list by the program's headers: the symbol _r_debug may be a copy in the program that
// the loader never updates.
void LoaderList::find_list() noexcept { dl_iterate_phdr(find_head, &list_); }

bool LoaderList::refresh() noexcept {
  if (!modules_.empty() && is_unchanged()) return false;
  LoaderList found;
  found.list_ = list_;
  if (!found.read_all() || !found.is_unchanged()) return false;
  found.changes_ = changes_ + 1;
  swap(found);
  return true;
}

// The first entry of the loader's list; nullptr while the loader changes the list.
const link_map* LoaderList::first_entry() const noexcept {
  r_debug head = {};
  if (!read_through_kernel(list_.head, head) || head.r_state != r_debug::RT_CONSISTENT) {
    return nullptr;
  }
  return head.r_map;
}

dl_phdr_info LoaderList::info_of(const Module& module, Names names) const noexcept {
  dl_phdr_info info = {};
  info.dlpi_addr = module.content.l_addr;
  info.dlpi_name = names == Names::kCopied ? names_.data() + module.name : module.content.l_name;
  info.dlpi_phdr = segments_.data() + module.segments;
  info.dlpi_phnum = static_cast<ElfW(Half)>(module.segment_count);
  return info;
}

bool LoaderList::read_all() noexcept {
  const link_map* entry = first_entry();
  const link_map* previous = nullptr;
  while (entry != nullptr && modules_.size() < kMaxModules) {
    Module module;
    if (!read_module(entry, module) || module.content.l_prev != previous) return false;
    if (!modules_.push(module)) return false;
    previous = entry;
    entry = module.content.l_next;
  }
  return !modules_.empty() && entry == nullptr;
}

bool LoaderList::read_module(const link_map* entry, Module& module) noexcept {
  char name[kMaxNameBytes];
  module.entry = entry;
  if (!read_through_kernel(entry, module.content) ||
      !read_text_through_kernel(module.content.l_name, name, sizeof name)) {
    return false;
  }
  module.name = static_cast<std::uint32_t>(names_.size());
  module.name_bytes = static_cast<std::uint32_t>(strlen(name) + 1);
  if (!names_.resize(names_.size() + module.name_bytes)) return false;
  memcpy(names_.data() + module.name, name, module.name_bytes);
  return read_segments(module);
}

// Copies a module's program headers; leaves segment_count 0 if they are found nowhere. The loader's
// own copy is private, so the function tries the headers behind the ELF header in memory (which a
// tool may have moved), those of the main program, then those in the file. False if there is no
// memory.
bool LoaderList::read_segments(Module& module) noexcept {
  module.segments = static_cast<std::uint32_t>(segments_.size());
  ElfW(Ehdr) header = {};
  const auto* begin = reinterpret_cast<const std::byte*>(module.content.l_addr);
  if (read_through_kernel(begin, header) && is_elf(header)) {
    if (!take_segments(module, begin + header.e_phoff, header.e_phnum)) return false;
    if (describes(module)) return true;
  }
  if (!take_segments(module, list_.program_segments, list_.program_segment_count)) return false;
  if (describes(module)) return true;
  if (!take_segments_of_file(module)) return false;
  if (!describes(module)) module.segment_count = 0;
  return true;
}

// Copies program headers from memory, if they can be read there. False if there is no memory.
bool LoaderList::take_segments(Module& module, const void* address, std::size_t count) noexcept {
  module.segment_count = 0;
  if (count > kMaxSegments) return true;
  if (!segments_.resize(module.segments + count)) return false;
  if (read_through_kernel(address, segments_.data() + module.segments,
                          count * sizeof(ElfW(Phdr)))) {
    module.segment_count = static_cast<std::uint32_t>(count);
  }
  return true;
}

// Copies program headers from the module's file, if they can be read. False if there is no memory.
bool LoaderList::take_segments_of_file(Module& module) noexcept {
  module.segment_count = 0;
  const char* name = names_.data() + module.name;
  return file_thread::run([&]() noexcept {
    const int descriptor = open_regular(name[0] == '\0' ? "/proc/self/exe" : name);
    if (descriptor < 0) return true;
    ElfW(Ehdr) header = {};
    bool has_memory = true;
    if (read_at(descriptor, 0, &header, sizeof header) == 0 && is_elf(header)) {
      has_memory = segments_.resize(module.segments + header.e_phnum);
      if (has_memory && read_at(descriptor, header.e_phoff, segments_.data() + module.segments,
                                header.e_phnum * sizeof(ElfW(Phdr))) == 0) {
        module.segment_count = header.e_phnum;
      }
    }
    close(descriptor);
    return has_memory;
  });
}

// True if the copied headers are the module's: they name the same dynamic section as the loader's
// entry.
bool LoaderList::describes(const Module& module) const noexcept {
  for (std::uint32_t i = 0; i < module.segment_count; ++i) {
    const ElfW(Phdr)& segment = segments_[module.segments + i];
    if (segment.p_type == PT_DYNAMIC) {
      return module.content.l_addr + segment.p_vaddr ==
             reinterpret_cast<std::uintptr_t>(module.content.l_ld);
    }
  }
  return false;
}

bool LoaderList::is_unchanged() const noexcept {
  if (first_entry() != modules_[0].entry) return false;
  for (std::size_t first = 0; first < modules_.size(); first += kModulesAtOnce) {
    const std::size_t rest = modules_.size() - first;
    if (!are_unchanged(first, rest < kModulesAtOnce ? rest : kModulesAtOnce)) return false;
  }
  return first_entry() == modules_[0].entry;
}

// True if the entries and the names of `count` modules, from number `first` on, are the same as at
// the last reading.
bool LoaderList::are_unchanged(std::size_t first, std::size_t count) const noexcept {
  iovec entries[kModulesAtOnce] = {};
  iovec names[kModulesAtOnce] = {};
  std::size_t name_bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Module& module = modules_[first + i];
    entries[i] = {const_cast<link_map*>(module.entry), sizeof(link_map)};
    names[i] = {module.content.l_name, module.name_bytes};
    name_bytes += module.name_bytes;
  }
  link_map contents[kModulesAtOnce] = {};
  char texts[kMaxNameBytes];
  if (!read_through_kernel(entries, count, contents)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!same(contents[i], modules_[first + i].content)) return false;
  }
  if (name_bytes > sizeof texts) {
    return are_unchanged(first, count / 2) && are_unchanged(first + count / 2, count - count / 2);
  }
  return read_through_kernel(names, count, texts) &&
         memcmp(texts, names_.data() + modules_[first].name, name_bytes) == 0;
}

void LoaderList::swap(LoaderList& other) noexcept {
  modules_.swap(other.modules_);
  names_.swap(other.names_);
  segments_.swap(other.segments_);
  changes_ = other.changes_;
}

}  // namespace gpumemtrace::preload
