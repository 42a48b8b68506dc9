// SPDX-License-Identifier: Apache-2.0
#include "tools/check/baseline.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "analyzer/rows/evidence.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kFormat = "gpumemtrace-baseline";
constexpr int kVersion = 1;
constexpr std::size_t kMaxHoldersKept = 10;  // of a peak, and of copies

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

Json environment_json(const Environment& environment) {
  return {{"devices", std::vector<Json>(environment.devices.begin(), environment.devices.end())},
          {"driver_version", json_or_null(environment.driver_version)},
          {"framework", json_or_null(environment.framework)},
          {"world_size", json_or_null(environment.world_size)}};
}

Environment environment_of_json(const Json& json) {
  Environment environment;
  for (const Json& device : json.at("devices")) environment.devices.push_back(device.text());
  environment.driver_version = number_in(json, "driver_version");
  environment.framework = text_in(json, "framework");
  environment.world_size = number_in(json, "world_size");
  return environment;
}

Json holders_json(const BaselineEntry& entry) {
  Json levels = Json::object();
  for (const auto& [level, holders] : entry.holders) {
    Json rows = Json::array();
    for (const HeldBytes& holder : holders) {
      rows.push_back(
          {{"call_site", holder.call_site}, {"name", holder.name}, {"bytes", holder.bytes}});
    }
    levels[level] = std::move(rows);
  }
  return levels;
}

Json entry_json(const BaselineEntry& entry) {
  Json findings = Json::array();
  for (const auto& [fingerprint, known] : entry.findings) {
    Json row = {{"fingerprint", fingerprint},
                {"rule", known.rule},
                {"where", known.where},
                {"bytes", known.bytes}};
    if (known.count) row["count"] = *known.count;
    findings.push_back(std::move(row));
  }
  Json peaks = Json::object();
  for (const auto& [level, bytes] : entry.peak_bytes) peaks[level] = bytes;
  return {{"environment", environment_json(entry.environment)},
          {"findings", std::move(findings)},
          {"peak_bytes", std::move(peaks)},
          {"holders", holders_json(entry)},
          {"transfer_bytes", entry.transfer_bytes}};
}

// Throws Failure, with `where` as the name of the file, if a field is no number of bytes.
BaselineEntry entry_of(const Json& json, const std::string& where) {
  const auto bytes_in = [&where](const Json& row, const std::string& key) {
    const auto bytes = number_in(row, key.c_str());
    if (!bytes) {
      throw Failure(
          format_text("{} is no baseline ('{}' is no number of bytes); make it again with "
                      "--write-baseline",
                      where, key));
    }
    return *bytes;
  };
  BaselineEntry entry;
  entry.environment = environment_of_json(json.at("environment"));
  entry.transfer_bytes = bytes_in(json, "transfer_bytes");
  for (const auto& [level, bytes] : json.at("peak_bytes").items()) {
    entry.peak_bytes[level] = bytes_in(json.at("peak_bytes"), level);
  }
  if (json.contains("holders")) {  // older versions wrote none
    for (const auto& [level, rows] : json.at("holders").items()) {
      for (const Json& row : rows) {
        entry.holders[level].push_back(
            {row.at("call_site"), row.at("name"), bytes_in(row, "bytes"), {}, {}});
      }
    }
  }
  for (const Json& row : json.at("findings")) {
    entry.findings[row.at("fingerprint")] = {row.at("rule"), row.at("where"),
                                             bytes_in(row, "bytes"), number_in(row, "count")};
  }
  return entry;
}

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
  try {
    const Json json = Json::parse(file);
    if (json.at("format") != kFormat || json.at("version") != kVersion) {
      throw Failure(
          format_text("{} is no baseline of version {}; make it again with "
                      "--write-baseline",
                      path.string(), kVersion));
    }
    Baseline baseline;
    for (const Json& entry : json.at("entries")) {
      baseline.entries_.push_back(entry_of(entry, path.string()));
    }
    return baseline;
  } catch (const analyzer::JsonError& error) {
    throw Failure(format_text("{} is no baseline ({}); make it again with --write-baseline",
                              path.string(), error.what()));
  }
}

const BaselineEntry* Baseline::find(const rows::Report& report) const {
  Environment environment = environment_of(report);
  const auto same = std::ranges::find(entries_, environment, &BaselineEntry::environment);
  if (same != entries_.end()) return &*same;
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

std::string Baseline::text() const {
  std::vector<std::pair<std::string, Json>> sorted;
  for (const BaselineEntry& entry : entries_) {
    sorted.emplace_back(environment_json(entry.environment).dump(), entry_json(entry));
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Json entries = Json::array();
  for (auto& [key, json] : sorted) entries.push_back(std::move(json));
  const Json whole = {{"format", kFormat}, {"version", kVersion}, {"entries", std::move(entries)}};
  return whole.dump(2) + "\n";
}

}  // namespace gpumemtrace::tools
