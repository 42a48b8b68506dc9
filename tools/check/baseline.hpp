// SPDX-License-Identifier: Apache-2.0
// A baseline is the accepted state of a job: findings by fingerprint, peaks and copied bytes. It is
// a small, sorted JSON file, meant to be committed beside the program's code.
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
  std::string where;  // code location, for people to read
  std::uint64_t bytes = 0;
  // Number of allocations or handles; empty if they were not counted.
  std::optional<std::uint64_t> count;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, rule, where, bytes);
    v.only_if_known("count", self.count);
  }
};

// Facts that decide how much memory the same program takes. The driver decides only what it takes
// by itself, such as contexts.
struct Environment {
  std::vector<std::string> devices;  // device names, sorted
  std::optional<std::uint64_t> driver_version;
  std::optional<std::string> framework;
  std::optional<std::uint64_t> world_size;

  friend auto operator<=>(const Environment&, const Environment&) = default;

  static void fields(auto& self, auto& v) {
    v("devices", self.devices);
    GPUMEMTRACE_KEYS(v.added, driver_version, framework, world_size);
  }
};

// The numbers measured in one environment. A report whose environment differs only in the driver
// is compared by the sizes that the program and PyTorch asked for; a report with any other
// difference is not compared.
struct BaselineEntry {
  Environment environment;
  std::map<std::string, KnownFinding> findings;
  // Peaks by level, and two more: "physical", the sum that the processes asked for, and "job", all
  // memory that they had in use.
  std::map<std::string, std::uint64_t> peak_bytes;
  // The largest holders, by level, and the lines that copied most.
  std::map<std::string, std::vector<HeldBytes>> holders;
  std::uint64_t transfer_bytes = 0;
};

// The number of allocations or handles that a leak lost; nullopt if they were not counted, or if
// the finding is no leak.
[[nodiscard]] std::optional<std::uint64_t> leak_count_of(const analyzer::rows::Finding& finding);

// The baseline entry for a report. Findings of severity info are left out.
[[nodiscard]] BaselineEntry baseline_of(const analyzer::rows::Report& report);

// True if the entry was made with the driver that the report has.
[[nodiscard]] bool is_of_same_driver(const analyzer::rows::Report& report,
                                     const BaselineEntry& entry);

// The highest peak of each level; the key "physical" has the highest physical peak of a device.
[[nodiscard]] std::map<std::string, std::uint64_t> peaks_of(const analyzer::rows::Report& report);
// Bytes copied between host and devices.
[[nodiscard]] std::uint64_t transfer_bytes_of(const analyzer::rows::Report& report);

class Baseline {
 public:
  // Reads a baseline file. Throws Failure if it is missing or no baseline.
  static Baseline read(const std::filesystem::path& path);

  // The entry with the report's environment, or else the entry of the newest driver whose
  // environment differs only in the driver; nullptr if there is none.
  [[nodiscard]] const BaselineEntry* find(const analyzer::rows::Report& report) const;
  // Stores the entry and replaces one that has the same environment.
  void put(BaselineEntry entry);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<BaselineEntry> entries_;
};

}  // namespace gpumemtrace::tools
