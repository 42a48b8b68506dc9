// SPDX-License-Identifier: Apache-2.0
#include "tools/check/baseline.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "analyzer/base/row_reader.hpp"
#include "analyzer/base/row_text.hpp"
#include "analyzer/rows/evidence.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kFormat = "gpumemtrace-baseline";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMaxHoldersKept = 10;  // largest holders stored for each peak and for copies

namespace rows = analyzer::rows;
Environment environment_of(const rows::Report& report) {
  Environment environment;
  for (const rows::Device& device : report.devices) {
    environment.devices.push_back(device.name.value_or("unknown"));
  }
  std::sort(environment.devices.begin(), environment.devices.end());
  for (const rows::Process& process : report.processes) {
    if (!environment.driver_version) environment.driver_version = process.cuda.driver_version;
    if (!environment.world_size) environment.world_size = process.world_size;
    if (!environment.framework && process.torch) {
      environment.framework = format_text("torch {} {}", process.torch->version.value_or("unknown"),
                                          process.torch->allocator.value_or("unknown"));
    }
  }
  return environment;
}

struct BaselineFinding : KnownFinding {
  std::string fingerprint;

  static void fields(auto& self, auto& v) {
    v("fingerprint", self.fingerprint);
    KnownFinding::fields(self, v);
  }
};

// A baseline entry with its findings as the list that the JSON file has.
struct EntryOfFile : BaselineEntry {
  std::vector<BaselineFinding> finding_rows;

  static void fields(auto& self, auto& v) {
    v("environment", self.environment);
    v("findings", self.finding_rows);
    v("peak_bytes", self.peak_bytes);
    v.added("holders", self.holders);
    v("transfer_bytes", self.transfer_bytes);
  }
};

struct BaselineFile {
  std::string format = kFormat;
  std::uint64_t version = kVersion;
  std::vector<EntryOfFile> entries;

  GPUMEMTRACE_FIELDS(format, version, entries)
};

}  // namespace

std::optional<std::uint64_t> leak_count_of(const rows::Finding& finding) {
  if (describe(finding.rule).family != "leak") return std::nullopt;
  return rows::evidence_of<rows::SiteEvidence>(finding).count;
}

bool is_of_same_driver(const rows::Report& report, const BaselineEntry& entry) {
  return environment_of(report).driver_version == entry.environment.driver_version;
}

std::map<std::string, std::uint64_t> peaks_of(const rows::Report& report) {
  std::map<std::string, std::uint64_t> peaks;
  const auto raise = [&peaks](std::string_view level, std::uint64_t bytes) {
    std::uint64_t& held = peaks[std::string(level)];
    held = std::max(held, bytes);
  };
  for (const rows::Peak& row : report.peak) raise(name_of(row.level), row.bytes);
  for (const rows::Device& row : report.devices) {
    if (row.physical_peak) raise("physical", row.physical_peak->bytes);
  }
  return peaks;
}

std::uint64_t transfer_bytes_of(const rows::Report& report) {
  std::uint64_t bytes = 0;
  for (const rows::Copies& row : report.transfers.by_kind) {
    if (is_between_host_and_device(row.direction)) bytes += row.bytes;
  }
  return bytes;
}

BaselineEntry baseline_of(const rows::Report& report) {
  BaselineEntry entry;
  entry.environment = environment_of(report);
  entry.peak_bytes = peaks_of(report);
  if (const rows::CardPeak* const job = highest_card_peak(report, rows::PeakOf::kJob)) {
    entry.peak_bytes[kPeakOfJob] = job->high_bytes;
  }
  const auto keep_holders = [&](const std::string& level) {
    std::vector<HeldBytes> holders = holders_of_level(report, level);
    if (holders.size() > kMaxHoldersKept) holders.resize(kMaxHoldersKept);
    entry.holders[level] = std::move(holders);
  };
  for (const auto& [level, bytes] : entry.peak_bytes) keep_holders(level);
  keep_holders(kTransfers);
  entry.transfer_bytes = transfer_bytes_of(report);
  for (const rows::Finding& finding : report.findings) {
    if (finding.severity == analyzer::Severity::kInfo) continue;
    KnownFinding& known = entry.findings[finding.fingerprint];
    known.rule = name_of(finding.rule);
    known.where = analyzer::name_holder(finding.origin);
    known.bytes += finding.bytes.value_or(0);
    if (const auto count = leak_count_of(finding)) known.count = known.count.value_or(0) + *count;
  }
  return entry;
}

Baseline Baseline::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw Failure(format_text("cannot open the baseline {}: {}; make it with --write-baseline",
                              path.string(), std::strerror(errno)));
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Baseline baseline;
  try {
    const auto mark = analyzer::row_of_text<analyzer::FileMark>(text, "baseline");
    if (mark.format != kFormat || mark.version != kVersion) {
      throw Failure(
          format_text("{} is no baseline of version {}; make it again with --write-baseline",
                      path.string(), kVersion));
    }
    for (EntryOfFile& row : analyzer::row_of_text<BaselineFile>(text, "baseline").entries) {
      for (const BaselineFinding& known : row.finding_rows) row.findings[known.fingerprint] = known;
      baseline.entries_.push_back(std::move(row));
    }
  } catch (const analyzer::InputError& error) {
    throw Failure(format_text("{} is no baseline ({}); make it again with --write-baseline",
                              path.string(), error.what()));
  }
  return baseline;
}

const BaselineEntry* Baseline::find(const rows::Report& report) const {
  Environment environment = environment_of(report);
  const auto same = std::ranges::find(entries_, environment, &BaselineEntry::environment);
  if (same != entries_.end()) return &*same;
  // No entry has the environment: take one that differs only in the driver, the newest if several
  // do.
  const BaselineEntry* newest = nullptr;
  for (const BaselineEntry& entry : entries_) {
    environment.driver_version = entry.environment.driver_version;
    if (entry.environment != environment) continue;
    const bool is_newer =
        newest == nullptr || newest->environment.driver_version < entry.environment.driver_version;
    if (is_newer) newest = &entry;
  }
  return newest;
}

void Baseline::put(BaselineEntry entry) {
  const auto found = std::ranges::find(entries_, entry.environment, &BaselineEntry::environment);
  if (found == entries_.end()) {
    entries_.push_back(std::move(entry));
  } else {
    *found = std::move(entry);
  }
}

// The entries are sorted by environment, so that the same entries always give the same text.
std::string Baseline::text() const {
  std::map<std::string, EntryOfFile> sorted;
  for (const BaselineEntry& entry : entries_) {
    EntryOfFile& row = sorted[analyzer::json_text(entry.environment)] = {entry, {}};
    for (const auto& [fingerprint, known] : entry.findings) {
      row.finding_rows.push_back({known, fingerprint});
    }
  }
  BaselineFile whole;
  for (auto& [key, row] : sorted) whole.entries.push_back(std::move(row));
  return analyzer::json_text(whole, analyzer::JsonLayout::kIndented) + "\n";
}

}  // namespace gpumemtrace::tools
