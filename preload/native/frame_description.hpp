// SPDX-License-Identifier: Apache-2.0
// Reads a module's unwind tables (.eh_frame, by the search table of .eh_frame_hdr) for the
// function around an address. Sources: Linux Standard Base Core 5.0, chapter 10.6; DWARF 4,
// section 6.4.
#pragma once

#include <cstdint>

#include "preload/base/byte_reader.hpp"
#include "preload/loader/unwind_tables.hpp"

namespace gpumemtrace::preload::native {

// The entry of one function (FDE) with what it shares with others (CIE).
struct FrameDescription {
  std::uint64_t begin = 0;  // of the function's code
  std::uint64_t end = 0;
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint64_t return_register = 0;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation = false;
  bool signal_frame = false;  // it returns to an interrupted instruction, not to a call
  ByteReader initial_program;
  ByteReader program;
};

// False if the tables have no entry for the address, are damaged, or use what compilers do not
// emit. Any thread; reads only.
[[nodiscard]] bool find_frame_description(const UnwindTables& tables, std::uint64_t address,
                                          FrameDescription& out) noexcept;

}  // namespace gpumemtrace::preload::native
