// SPDX-License-Identifier: Apache-2.0
// The machine that the analysis runs on.
#pragma once

#include <fstream>
#include <string>

namespace gpumemtrace::analyzer {

// The id of the machine's boot; empty if the kernel does not tell it.
[[nodiscard]] inline std::string boot_id_of_this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace gpumemtrace::analyzer
