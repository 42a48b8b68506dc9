// SPDX-License-Identifier: Apache-2.0
// The addresses of a loaded file, by its program headers.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

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

// The readable segment whose file-backed part has these bytes; nullptr if none has. `address` is
// the file's own.
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

}  // namespace gpumemtrace::preload
