// SPDX-License-Identifier: Apache-2.0
// Finds the source line of a byte code instruction, from a code object's line table. The form of
// the table changed with CPython's versions:
//
//   3.9       co_lnotab: pairs of offset and line increments (Objects/lnotab_notes.txt)
//   3.10      PEP 626 line table: ranges with line increments
//   3.11 on   location table: variable-length entries (Objects/locations.md)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpumemtrace::analyzer {

// `version` is PY_VERSION_HEX, `instruction` a byte offset into the code. 0 if the table gives
// no line. Never reads past the table, whatever it holds.
std::uint32_t python_line(std::uint32_t version, std::span<const std::byte> table,
                          std::uint32_t first_line, std::uint32_t instruction);

}  // namespace gpumemtrace::analyzer
