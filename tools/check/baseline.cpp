// SPDX-License-Identifier: Apache-2.0
#include "tools/check/baseline.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kFormat = "gpumemtrace-baseline";
constexpr int kVersion = 1;

// What decides how much memory the same program takes.
Json environment_of(const Json& report) {
  std::vector<std::string> devices;
  for (const Json& device : report.at("devices")) {
    devices.push_back(text_or(device, "name", "unknown"));
  }
  std::sort(devices.begin(), devices.end());
  Json driver = nullptr;
  Json framework = nullptr;
  Json world_size = nullptr;
  for (const Json& process : report.at("processes")) {
    if (driver.is_null()) driver = process.at("cuda").at("driver_version");
    if (world_size.is_null()) world_size = process.at("world_size");
    const Json& torch = process.at("torch");
    if (framework.is_null() && torch.is_object()) {
      framework = format_text("torch {} {}", text_or(torch, "version", "unknown"),
                              text_or(torch, "allocator", "unknown"));
    }
  }
  return {{"devices", std::vector<Json>(devices.begin(), devices.end())},
          {"driver_version", driver},
          {"framework", framework},
          {"world_size", world_size}};
}

Json entry_json(const BaselineEntry& entry) {
  Json findings = Json::array();
  for (const auto& [fingerprint, known] : entry.findings) {
    findings.push_back({{"fingerprint", fingerprint},
                        {"rule", known.rule},
                        {"where", known.where},
                        {"bytes", known.bytes}});
  }
  Json peaks = Json::object();
  for (const auto& [level, bytes] : entry.peak_bytes) peaks[level] = bytes;
  return {{"environment", entry.environment},
          {"findings", std::move(findings)},
          {"peak_bytes", std::move(peaks)},
          {"transfer_bytes", entry.transfer_bytes}};
}

// `where` names the file in the Failure for what is no number of bytes.
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
  entry.environment = json.at("environment");
  entry.transfer_bytes = bytes_in(json, "transfer_bytes");
  for (const auto& [level, bytes] : json.at("peak_bytes").items()) {
    entry.peak_bytes[level] = bytes_in(json.at("peak_bytes"), level);
  }
  for (const Json& row : json.at("findings")) {
    entry.findings[row.at("fingerprint")] = {row.at("rule"), row.at("where"),
                                             bytes_in(row, "bytes")};
  }
  return entry;
}

}  // namespace

std::map<std::string, std::uint64_t> peaks_of(const Json& report) {
  std::map<std::string, std::uint64_t> peaks;
  const auto raise = [&peaks](const std::string& level, std::uint64_t bytes) {
    std::uint64_t& held = peaks[level];
    held = std::max(held, bytes);
  };
  for (const Json& row : report.at("peak")) raise(row.at("level"), number_or_zero(row, "bytes"));
  for (const Json& row : report.at("devices")) {
    const Json& peak = row.at("physical_peak");
    if (peak.is_object()) raise("physical", number_or_zero(peak, "bytes"));
  }
  return peaks;
}

std::uint64_t transfer_bytes_of(const Json& report) {
  std::uint64_t bytes = 0;
  for (const Json& row : report.at("transfers").at("by_kind")) {
    const std::string direction = row.at("direction");
    if (direction == "host_to_device" || direction == "device_to_host") {
      bytes += number_or_zero(row, "bytes");
    }
  }
  return bytes;
}

BaselineEntry baseline_of(const Json& report) {
  BaselineEntry entry;
  entry.environment = environment_of(report);
  entry.peak_bytes = peaks_of(report);
  entry.transfer_bytes = transfer_bytes_of(report);
  for (const Json& finding : report.at("findings")) {
    if (finding.at("severity") == "info") continue;
    KnownFinding& known = entry.findings[finding.at("fingerprint")];
    known.rule = finding.at("rule");
    known.where = name_holder(finding);
    known.bytes += number_or_zero(finding, "bytes");
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

const BaselineEntry* Baseline::find(const Json& report) const {
  const Json environment = environment_of(report);
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const BaselineEntry& entry) { return entry.environment == environment; });
  return found == entries_.end() ? nullptr : &*found;
}

void Baseline::put(BaselineEntry entry) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const BaselineEntry& old) {
    return old.environment == entry.environment;
  });
  if (found == entries_.end()) {
    entries_.push_back(std::move(entry));
  } else {
    *found = std::move(entry);
  }
}

std::string Baseline::text() const {
  std::vector<std::pair<std::string, Json>> sorted;
  for (const BaselineEntry& entry : entries_) {
    sorted.emplace_back(entry.environment.dump(), entry_json(entry));
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Json entries = Json::array();
  for (auto& [key, json] : sorted) entries.push_back(std::move(json));
  const Json whole = {{"format", kFormat}, {"version", kVersion}, {"entries", std::move(entries)}};
  return whole.dump(2) + "\n";
}

}  // namespace gpumemtrace::tools
