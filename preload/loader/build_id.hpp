// SPDX-License-Identifier: Apache-2.0
// The build-id of a loaded file: what ties an address in a trace to the file with its symbols.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/loader/loaded_module.hpp"

namespace gpumemtrace::preload {

// The content of a file's NT_GNU_BUILD_ID note, the part that a Module record has room for.
struct BuildId {
  static constexpr std::size_t kMaxBytes = 24;
  std::uint8_t content[kMaxBytes] = {};
  std::uint32_t bytes = 0;  // of the note; 0 = the file has none
};

// By program headers that stay readable; the file itself may be unloaded meanwhile. Any thread.
BuildId find_build_id(std::uint64_t base, const ElfW(Phdr) * headers, std::size_t count) noexcept;
// Reads the build id of a file that must stay loaded meanwhile.
BuildId find_build_id(const LoadedModule& module) noexcept;

}  // namespace gpumemtrace::preload
