// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/compatibility.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

enum class TriedWhere { kOnGpu, kSimulated };

struct Tried {
  MachinePart part;
  std::string_view version;
  TriedWhere where;
};

constexpr auto kTried = std::to_array<Tried>({
#define GPUMEMTRACE_TRIED(part, version, where) {MachinePart::part, version, TriedWhere::where},
#include "tools/traces/tried_versions.def"
#undef GPUMEMTRACE_TRIED
});

std::string_view name_of(MachinePart part) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"architecture", "glibc", "CPython", "PyTorch", "driver", "CUDA", "GPU"});
  static_assert(kNames.size() == static_cast<std::size_t>(MachinePart::kGpu) + 1);
  return kNames.at(static_cast<std::size_t>(part));
}

bool was_tried(const PartVersion& found, TriedWhere where) {
  const std::string_view version =
      std::string_view(found.version).substr(0, found.version.find('+'));
  return std::ranges::any_of(kTried, [&](const Tried& row) {
    return row.part == found.part && row.version == version && row.where == where;
  });
}

void append(std::string& list, const PartVersion& found) {
  list += format_text("{}{} {}", list.empty() ? "" : ", ", name_of(found.part), found.version);
}

}  // namespace

Compatibility compare_with_tried(const std::vector<PartVersion>& machine) {
  const bool has_gpu = std::ranges::any_of(
      machine, [](const PartVersion& found) { return found.part == MachinePart::kGpu; });
  std::string tried;
  std::string simulated_alone;
  std::string untried;
  for (const PartVersion& found : machine) {
    const bool on_gpu = was_tried(found, TriedWhere::kOnGpu);
    const bool simulated = was_tried(found, TriedWhere::kSimulated);
    append(on_gpu || (simulated && !has_gpu) ? tried
           : simulated                       ? simulated_alone
                                             : untried,
           found);
  }
  std::string text;
  const auto part = [&text](std::string_view title, const std::string& list) {
    if (list.empty()) return;
    text += format_text("{}{}: {}", text.empty() ? "" : "; ", title, list);
  };
  part("not tried", untried);
  part("tried on the simulated driver alone", simulated_alone);
  part("tried", tried);
  return {untried.empty() && simulated_alone.empty(), text};
}

}  // namespace gpumemtrace::tools
