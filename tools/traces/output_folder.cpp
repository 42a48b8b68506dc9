// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/output_folder.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace gpumemtrace::tools {

namespace fs = std::filesystem;

fs::path existing_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::path there = folder.empty() ? fs::path(".") : folder;
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  return there.empty() ? fs::path(".") : there;
}

// Numbers of statfs(2) and linux/magic.h; those of Lustre, GPFS and BeeGFS are in their sources.
std::string_view network_file_system_name(std::uint64_t type) {
  using Name = std::pair<std::uint64_t, std::string_view>;
  constexpr auto kNames = std::to_array<Name>({
      {0x6969, "NFS"},
      {0xff534d42, "CIFS"},
      {0xfe534d42, "SMB"},
      {0x00c36400, "CephFS"},
      {0x01021997, "9p"},
      {0x5346414f, "AFS"},
      {0x0bd00bd0, "Lustre"},
      {0x47504653, "GPFS"},
      {0x19830326, "BeeGFS"},
  });
  const auto* const found = std::ranges::find(kNames, type, &Name::first);
  return found == kNames.end() ? std::string_view() : found->second;
}

std::string_view network_file_system_of(const fs::path& folder) {
  struct statfs status = {};
  if (statfs(folder.c_str(), &status) != 0) return {};
  return network_file_system_name(static_cast<std::uint32_t>(status.f_type));
}

}  // namespace gpumemtrace::tools
