// SPDX-License-Identifier: Apache-2.0
// The known state of a job: findings by fingerprint, peaks and copied bytes. A small, sorted JSON
// file that is meant to be committed beside the code that it judges.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/check/peak_holders.hpp"

namespace gpumemtrace::tools {

// A text near the begin of every file of baselines.
inline constexpr std::string_view kBaselineMark = "\"gpumemtrace-baseline\"";

struct KnownFinding {
  std::string rule;
  std::string where;  // for people
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> count;  // of allocations or handles; empty if they were not counted

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, rule, where, bytes);
    v.only_if_known("count", self.count);
  }
};

// Facts that decide how much memory the same program takes. The driver decides only what it takes
// by itself, such as contexts.
struct Environment {
  std::vector<std::string> devices;  // their names, sorted
  std::optional<std::uint64_t> driver_version;
  std::optional<std::string> framework;
  std::optional<std::uint64_t> world_size;

  friend auto operator<=>(const Environment&, const Environment&) = default;

  static void fields(auto& self, auto& v) {
    v("devices", self.devices);
    GPUMEMTRACE_KEYS(v.added, driver_version, framework, world_size);
  }
};

// The numbers of one environment. Under another driver only those that the program and PyTorch
// asked for can be compared, in other environments none.
struct BaselineEntry {
  Environment environment;
  std::map<std::string, KnownFinding> findings;
  // By level; physical: what the processes asked for, together; job: all that they had in use.
  std::map<std::string, std::uint64_t> peak_bytes;
  std::map<std::string, std::vector<HeldBytes>> holders;  // the largest, by level and of copies
  std::uint64_t transfer_bytes = 0;
};

// The allocations or handles that a leak is about.
[[nodiscard]] std::optional<std::uint64_t> leak_count_of(const analyzer::rows::Finding& finding);

// The entry that the report would make. Findings that say what the trace could not see are no part
// of it.
[[nodiscard]] BaselineEntry baseline_of(const analyzer::rows::Report& report);

// The entry's driver is the report's.
[[nodiscard]] bool is_of_same_driver(const analyzer::rows::Report& report,
                                     const BaselineEntry& entry);

// Highest peak of each level, and the highest physical one of a device under "physical".
[[nodiscard]] std::map<std::string, std::uint64_t> peaks_of(const analyzer::rows::Report& report);
// Bytes copied between host and devices.
[[nodiscard]] std::uint64_t transfer_bytes_of(const analyzer::rows::Report& report);

class Baseline {
 public:
  // Throws Failure for a file that is not there or no baseline.
  static Baseline read(const std::filesystem::path& path);

  // The entry of the report's environment, else the one of the newest driver whose environment is
  // the same but for the driver; nullptr if there is none.
  [[nodiscard]] const BaselineEntry* find(const analyzer::rows::Report& report) const;
  // Puts the entry in the place of the one of its environment.
  void put(BaselineEntry entry);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<BaselineEntry> entries_;
};

}  // namespace gpumemtrace::tools
