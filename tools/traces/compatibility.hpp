// SPDX-License-Identifier: Apache-2.0
// Compares the versions on a machine with those that the recorder was tried with.
#pragma once

#include <string>
#include <vector>

namespace gpumemtrace::tools {

enum class MachinePart { kArchitecture, kGlibc, kPython, kTorch, kDriver, kCuda, kGpu };

struct PartVersion {
  MachinePart part = MachinePart::kArchitecture;
  std::string version;  // as tried_versions.def writes it; a suffix such as +cu130 does not count
};

struct Compatibility {
  bool is_tried = false;  // every part, and if there is a GPU on one
  std::string text;       // "not tried: ...; tried: ..."
};

// `machine` has the known versions of the machine. With a GPU (kGpu), versions that were tried on
// the simulated driver alone are marked.
[[nodiscard]] Compatibility compare_with_tried(const std::vector<PartVersion>& machine);

}  // namespace gpumemtrace::tools
