// SPDX-License-Identifier: Apache-2.0
// Reads line tables of Python's code objects in the forms of all versions. An input has a version,
// a first line, then the table.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/stacks/python_stacks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr std::uint32_t kVersions[] = {0x03090000, 0x030a0000, 0x030b0000,
                                         0x030c0000, 0x030d0000, 0x030e0000};
  const std::uint32_t version = kVersions[data[0] % std::size(kVersions)];
  // This copy is exactly as long as the table, so that a read behind its end is noticed.
  const std::vector<std::uint8_t> table(data + 2, data + size);
  for (std::uint32_t instruction = 0; instruction < 64; instruction += 2) {
    (void)gpumemtrace::analyzer::python_line(version, std::as_bytes(std::span(table)), data[1],
                                             instruction);
  }
  (void)gpumemtrace::analyzer::python_line(version, std::as_bytes(std::span(table)), ~0u, ~0u);
  return 0;
}
