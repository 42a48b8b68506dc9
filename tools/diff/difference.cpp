// SPDX-License-Identifier: Apache-2.0
#include "tools/diff/difference.hpp"

#include <algorithm>
#include <map>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/check/baseline.hpp"

namespace gpumemtrace::tools {
namespace {

using BytesByName = std::map<std::string, std::uint64_t>;
using Collect = BytesByName (*)(const Json& report);

std::int64_t change_of(const DifferenceRow& row) {
  return static_cast<std::int64_t>(row.new_bytes) - static_cast<std::int64_t>(row.base_bytes);
}

DifferenceSection compare(std::string name, std::string title, const BytesByName& base,
                          const BytesByName& next) {
  BytesByName names = base;
  names.insert(next.begin(), next.end());
  const auto in = [](const BytesByName& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? 0 : found->second;
  };
  DifferenceSection section{std::move(name), std::move(title), {}};
  for (const auto& [key, ignored] : names) {
    section.rows.push_back({key, in(base, key), in(next, key)});
  }
  std::stable_sort(
      section.rows.begin(), section.rows.end(),
      [](const DifferenceRow& a, const DifferenceRow& b) { return change_of(a) > change_of(b); });
  return section;
}

// A line moves when code above it changes, so it is no part of the name.
std::string call_site_of(const Json& row) {
  Json call_site = {{"owner", row.at("owner")}, {"site", row.at("site")}};
  if (call_site["site"].is_object()) call_site["site"]["line"] = nullptr;
  return name_holder(call_site);
}

// Each level for itself: framework memory lies inside the driver's.
BytesByName holders_by(const Json& report, std::string (*name)(const Json& holder)) {
  BytesByName bytes;
  for (const Json& peak : report.at("peak")) {
    const std::string level = peak.at("level");
    for (const Json& holder : peak.at("holders")) {
      const std::uint64_t held = number_or_zero(holder, "bytes");
      if (held != 0) bytes[level + ": " + name(holder)] += held;
    }
  }
  return bytes;
}

BytesByName by_category(const Json& report) {
  return holders_by(report,
                    [](const Json& holder) { return text_or(holder, "category", "not told"); });
}

BytesByName by_owner(const Json& report) {
  return holders_by(report,
                    [](const Json& holder) { return text_or(holder, "owner", "not known"); });
}

BytesByName by_call_site(const Json& report) { return holders_by(report, call_site_of); }

BytesByName leaked(const Json& report) {
  BytesByName bytes;
  for (const Json& row : report.at("leaks").at("exit")) {
    if (row.at("class") == "lost" && row.at("inside").is_null()) {
      bytes[call_site_of(row)] += number_or_zero(row, "bytes");
    }
  }
  return bytes;
}

BytesByName transferred(const Json& report) {
  BytesByName bytes;
  for (const Json& row : report.at("transfers").at("by_kind")) {
    bytes[format_text("{}, {} to {}", text_or(row, "direction", "unknown"),
                      text_or(row, "source_memory", "unknown"),
                      text_or(row, "destination_memory", "unknown"))] +=
        number_or_zero(row, "bytes");
  }
  return bytes;
}

struct SectionInfo {
  const char* name;
  const char* title;
  Collect collect;
  bool is_limited;  // its rows count as regressions
};
constexpr SectionInfo kSections[] = {
    {"peak", "Peak by allocator layer", peaks_of, true},
    {"categories", "At the peak by category", by_category, false},
    {"owners", "At the peak by owner", by_owner, false},
    {"places", "At the peak by call site", by_call_site, false},
    {"leaks", "Lost at exit", leaked, true},
    {"transfers", "Copied", transferred, true},
};
constexpr const char* kStepSection = "step";

// Of several ranks the sums.
BytesByName step_numbers(const Json& report, std::uint64_t step) {
  BytesByName numbers;
  bool found = false;
  for (const Json& row : report.at("steps")) {
    if (number_in(row, "index") != step) continue;
    found = true;
    for (const char* key : {"peak_bytes", "live_bytes_at_end", "transfers_bytes"}) {
      numbers[key] += number_or_zero(row, key);
    }
  }
  if (!found) {
    throw Failure(format_text("the report has no step {}; it has {}", step,
                              count_of(report.at("steps").size(), "step", "steps")));
  }
  return numbers;
}

}  // namespace

std::vector<DifferenceSection> compare_jobs(const Json& base, const Json& next) {
  std::vector<DifferenceSection> sections;
  for (const SectionInfo& info : kSections) {
    sections.push_back(compare(info.name, info.title, info.collect(base), info.collect(next)));
  }
  return sections;
}

std::vector<DifferenceSection> compare_steps(const Json& base, std::uint64_t base_step,
                                             const Json& next, std::uint64_t next_step) {
  return {compare(kStepSection, format_text("Step {} and step {}", base_step, next_step),
                  step_numbers(base, base_step), step_numbers(next, next_step))};
}

std::vector<DifferenceRow> regressions_of(const std::vector<DifferenceSection>& sections,
                                          const RegressionLimit& limit) {
  std::vector<DifferenceRow> regressions;
  for (const DifferenceSection& section : sections) {
    const bool is_limited =
        section.name == kStepSection ||
        std::any_of(std::begin(kSections), std::end(kSections), [&](const SectionInfo& info) {
          return info.is_limited && section.name == info.name;
        });
    for (const DifferenceRow& row : section.rows) {
      if (!is_limited || row.new_bytes <= limit.allowed_bytes(row.base_bytes)) continue;
      regressions.push_back({section.name + ", " + row.name, row.base_bytes, row.new_bytes});
    }
  }
  return regressions;
}

}  // namespace gpumemtrace::tools
