// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/build_id.hpp"

#include <elf.h>
#include <string.h>

#include "preload/base/byte_reader.hpp"
#include "preload/base/checked_memory.hpp"
#include "preload/loader/segments.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxNoteBytes = 1024;

// Searches the notes of one segment.
bool find_in_notes(native::ByteReader notes, std::uint64_t alignment, BuildId& id) noexcept {
  // The header's three words do not end on a multiple of 8: name and header are padded as one.
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
