// SPDX-License-Identifier: Apache-2.0
// The files that the loader has mapped, read from the list that it keeps for debuggers.
//
// The list is read without the loader's lock: if a thread forks while another thread holds that
// lock, the child cannot use the loader. fork resets a part of the locks, raw clone none, and the
// program cannot know when the background thread reads the list.
//
// The list may change or go away meanwhile, so it is read through the kernel, and a reading counts
// only if the list was the same before and after it.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "trace/ledger/mapped_array.hpp"

namespace gpumemtrace::preload {

// The loader's list, and the program headers of the main program, which stays loaded.
struct ListHead {
  const r_debug* head = nullptr;
  const ElfW(Phdr) * program_segments = nullptr;
  std::size_t program_segment_count = 0;
};

// - For one thread at a time; find_list() is for a thread of the program.
// - Memory of a module may be unmapped at any time: read it through the kernel.
// - A module whose program headers cannot be found, in memory or in its file, is left out.
class LoaderList {
 public:
  // Finds the loader's list, once before the first refresh(). Takes the loader's
  // lock.
  void find_list() noexcept;
  // Reads the list again if it has changed since the last refresh(); true if it has. False also if
  // the loader is just changing it: the next refresh() will notice. If nothing has changed, costs
  // about two system calls for every 32 modules.
  [[nodiscard]] bool refresh() noexcept;
  // Counts how often refresh() found the list changed.
  std::uint32_t changes() const noexcept { return changes_; }

  // The owner of the text in dlpi_name: kCopied is valid until the next refresh(), kLoaders as long
  // as the module.
  enum class Names { kCopied, kLoaders };
  // Calls visit(info) for the modules of the last refresh() that found a change, as dl_iterate_phdr
  // does, until `visit` returns true. Returns true if `visit` did.
  template <class Visit>
  [[nodiscard]] bool visit(Visit&& visit, Names names = Names::kCopied) const noexcept {
    for (const Module& module : modules_) {
      if (module.segment_count != 0 && visit(info_of(module, names))) return true;
    }
    return false;
  }

 private:
  struct Module {
    const link_map* entry = nullptr;
    link_map content = {};
    std::uint32_t name = 0;        // index of the name's begin in names_
    std::uint32_t name_bytes = 0;  // bytes of the name, with the zero at its end
    std::uint32_t segments = 0;    // index of the first segment in segments_
    std::uint32_t segment_count = 0;
  };

  const link_map* first_entry() const noexcept;
  dl_phdr_info info_of(const Module& module, Names names) const noexcept;
  [[nodiscard]] bool read_all() noexcept;
  [[nodiscard]] bool read_module(const link_map* entry, Module& module) noexcept;
  [[nodiscard]] bool read_segments(Module& module) noexcept;
  [[nodiscard]] bool take_segments(Module& module, const void* address, std::size_t count) noexcept;
  [[nodiscard]] bool take_segments_of_file(Module& module) noexcept;
  [[nodiscard]] bool describes(const Module& module) const noexcept;
  [[nodiscard]] bool is_unchanged() const noexcept;
  [[nodiscard]] bool are_unchanged(std::size_t first, std::size_t count) const noexcept;
  void swap(LoaderList& other) noexcept;

  ListHead list_;
  ledger::MappedArray<Module> modules_;
  ledger::MappedArray<char> names_;
  ledger::MappedArray<ElfW(Phdr)> segments_;
  std::uint32_t changes_ = 0;
};

}  // namespace gpumemtrace::preload
