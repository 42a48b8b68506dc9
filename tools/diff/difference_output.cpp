// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "analyzer/base/row_text.hpp"
#include "analyzer/frameworks/frameworks.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/peak_holders.hpp"
#include "tools/diff/difference.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMaxRowsShown = 10;

std::string more_text(std::size_t count) {
  if (count <= kMaxRowsShown) return {};
  return format_text("  and {} more; --json has all\n", count - kMaxRowsShown);
}

std::string change_text(const DifferenceRow& row) {
  return row.new_bytes >= row.base_bytes ? "+" + size_text(row.new_bytes - row.base_bytes)
                                         : "-" + size_text(row.base_bytes - row.new_bytes);
}

std::string row_text(const DifferenceRow& row) {
  return format_text("  {:>11}  {:>10} -> {:<10}  {}\n", change_text(row),
                     size_text(row.base_bytes), size_text(row.new_bytes),
                     row.title.empty() ? row.name : row.title);
}

std::string findings_text(const char* title, const std::vector<NamedFinding>& findings) {
  std::string text = findings.empty() ? "" : format_text("{}\n", title);
  for (std::size_t i = 0; i < std::min(findings.size(), kMaxRowsShown); ++i) {
    text += format_text("  {}: {}\n", findings[i].rule, findings[i].title);
  }
  return text + more_text(findings.size());
}

// The rows of a section that changed, in a listing for each group; empty if none did.
std::string section_text(const DifferenceSection& section) {
  std::vector<std::string> groups;
  for (const DifferenceRow& row : section.rows) {
    const bool is_new = std::ranges::find(groups, row.group) == groups.end();
    if (row.changed() && is_new) groups.push_back(row.group);
  }
  std::string text;
  for (const std::string& group : groups) {
    text += section.title + (group.empty() ? "" : ", " + group) + "\n";
    std::size_t changed = 0;
    for (const DifferenceRow& row : section.rows) {
      if (row.group != group || !row.changed()) continue;
      if (++changed <= kMaxRowsShown) text += row_text(row);
    }
    text += more_text(changed);
  }
  return text;
}

std::string missing_text(const char* input, const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) {
    text += format_text("  {} misses events, so its numbers may be too low: {}\n", input, sentence);
  }
  return text;
}

StyledText difference_headline(const Difference& difference) {
  const StyledText incomplete("INCOMPLETE", Style::kDoubtful);
  if (!difference.has_limit) return difference.is_incomplete() ? incomplete + "\n" : StyledText();
  if (!difference.regressions.empty()) {
    StyledText text = StyledText("FAILED", Style::kBad) +
                      format_text(": {} grew by more than is allowed\n",
                                  count_of(difference.regressions.size(), "number", "numbers"));
    for (const DifferenceRow& row : difference.regressions) text += row_text(row);
    return text;
  }
  if (difference.is_incomplete()) {
    return incomplete + ": nothing that was seen grew by more than is allowed\n";
  }
  return StyledText("PASSED", Style::kGood) + ": nothing grew by more than is allowed\n";
}

}  // namespace

StyledText difference_text(const Difference& difference) {
  StyledText text = difference_headline(difference) + difference.in_short +
                    (difference.in_short.empty() ? "" : "\n") +
                    missing_text("BASE", difference.missing.base) +
                    missing_text("NEW", difference.missing.next);
  for (const std::string& change : difference.changes) {
    text += StyledText("Note", Style::kDoubtful) + ": " + change + "\n";
  }
  text += findings_text("New findings", difference.new_findings);
  text += findings_text("Findings that are gone", difference.mended_findings);
  std::vector<std::string> unchanged;
  for (const DifferenceSection& section : difference.sections) {
    const std::string changes = section_text(section);
    if (changes.empty()) unchanged.push_back(section.title);
    text += changes;
  }
  if (!unchanged.empty()) text += format_text("No change: {}\n", joined(unchanged, "; "));
  return text;
}

std::string difference_json(const Difference& difference) {
  return analyzer::json_text(difference, analyzer::JsonLayout::kIndented) + "\n";
}

namespace {

namespace rows = analyzer::rows;
using rows::PeakOf;

// A number and its change: "2.0 GiB, 1.0 GiB more than BASE".
std::string change_text(std::uint64_t base_bytes, std::uint64_t next_bytes,
                        const std::string& base) {
  const std::string now = size_text(next_bytes);
  if (base_bytes == next_bytes) return format_text("{}, as {}", now, base);
  const bool is_more = next_bytes > base_bytes;
  const std::uint64_t change = is_more ? next_bytes - base_bytes : base_bytes - next_bytes;
  return format_text("{}, {} {} than {}", now, size_text(change), is_more ? "more" : "less", base);
}

// A peak and its change. A peak is shown as a range if its bounds print differently.
std::string change_text(const rows::CardPeak& base, const rows::CardPeak& next) {
  const std::string before = peak_text(base);
  const std::string now = peak_text(next);
  const auto is_range = [](const rows::CardPeak& peak) {
    return size_text(peak.low_bytes) != size_text(peak.high_bytes);
  };
  if (!is_range(base) && !is_range(next)) return change_text(base.bytes, next.bytes, "BASE");
  return now == before ? now + ", as BASE" : format_text("{}, and BASE at {}", now, before);
}

std::uint64_t highest_asked_for(const rows::Report& report) {
  std::uint64_t bytes = 0;
  for (const rows::Device& row : report.devices) {
    if (row.physical_peak) bytes = std::max(bytes, row.physical_peak->bytes);
  }
  return bytes;
}

std::uint64_t lost_bytes(const rows::Report& report) {
  std::uint64_t bytes = 0;
  for (const rows::ExitLeak& row : report.leaks.exit) {
    if (row.leak_class == rows::LeakClass::kLost && !row.inside) bytes += row.bytes;
  }
  return bytes;
}

// The peak of a step, summed over all ranks.
std::uint64_t peak_of_step(const rows::Report& report, std::uint64_t step) {
  std::uint64_t bytes = 0;
  for (const rows::Step& row : find_step(report, step)) bytes += row.peak_bytes;
  return bytes;
}

// A clause about the line that grew most at the compared peak; empty if none grew.
std::string cause_text(const rows::Report& base, const rows::Report& next, const char* level) {
  const std::vector<HeldBytes> lines =
      grown(holders_of_level(next, level), holders_of_level(base, level));
  if (lines.empty()) return {};
  const HeldBytes& most = lines.front();
  return format_text("; {} grew most, by {}", most.name,
                     size_text(most.bytes - most.base_bytes.value_or(0)));
}

}  // namespace

std::string difference_in_short(const rows::Report& base, const rows::Report& next) {
  const rows::CardPeak* const base_job = highest_card_peak(base, PeakOf::kJob);
  const rows::CardPeak* const next_job = highest_card_peak(next, PeakOf::kJob);
  const bool has_job = base_job != nullptr && next_job != nullptr;
  const std::uint64_t before = has_job ? base_job->bytes : highest_asked_for(base);
  const std::uint64_t now = has_job ? next_job->bytes : highest_asked_for(next);
  std::string text = has_job ? "The job peaks at " + change_text(*base_job, *next_job)
                             : "The job asked for " + change_text(before, now, "BASE");
  if (now > before) text += cause_text(base, next, has_job ? kPeakOfJob : "physical");
  const std::uint64_t lost_before = lost_bytes(base);
  const std::uint64_t lost_now = lost_bytes(next);
  if (lost_before != lost_now) {
    text += "; it loses " + change_text(lost_before, lost_now, "BASE");
  }
  return text + ".";
}

std::string difference_in_short(const rows::Report& base, std::uint64_t base_step,
                                const rows::Report& next, std::uint64_t next_step) {
  return format_text("Step {} peaks at {}.", next_step,
                     change_text(peak_of_step(base, base_step), peak_of_step(next, next_step),
                                 format_text("step {}", base_step)));
}

namespace {

namespace rows = analyzer::rows;

using Answers = std::set<std::string>;

// Compares programs by name only, because arguments change from run to run.
void program_of(const rows::Process& process, Answers& values) {
  values.insert(program_name(process));
}

void driver_of(const rows::Process& process, Answers& values) {
  const auto version = process.cuda.driver_version;
  if (version) values.insert(format_text("{}.{}", *version / 1000, *version % 1000 / 10));
}

void framework_of(const rows::Process& process, Answers& values) {
  if (process.torch) values.insert(process.torch->version.value_or("unknown"));
}

void allocator_of(const rows::Process& process, Answers& values) {
  if (process.torch) values.insert(process.torch->allocator.value_or("unknown"));
}

void world_size_of(const rows::Process& process, Answers& values) {
  values.insert(process.world_size ? format_text("{}", *process.world_size) : "none");
}

struct Aspect {
  std::string name;
  void (*add)(const rows::Process& process, Answers& values);
};
std::vector<Aspect> aspects() {
  const std::string framework(analyzer::framework_with_blocks().name);
  return {
      {"program", program_of},
      {"CUDA version of the driver", driver_of},
      {framework, framework_of},
      {"allocator of " + framework, allocator_of},
      {"number of ranks", world_size_of},
  };
}

std::string values_text(const Answers& values) {
  const std::string text = joined(values);
  return text.empty() ? "none" : text;
}

void add_change(const std::string& name, const Answers& base, const Answers& next,
                std::vector<std::string>& changes) {
  if (base == next) return;
  changes.push_back(
      format_text("another {}: {} in BASE, {} in NEW", name, values_text(base), values_text(next)));
}

Answers devices_of(const rows::Report& report) {
  Answers names;
  for (const rows::Device& device : report.devices) names.insert(device.name.value_or("unknown"));
  return names;
}

}  // namespace

std::vector<std::string> changes_of_environment(const rows::Report& base,
                                                const rows::Report& next) {
  std::vector<std::string> changes;
  for (const Aspect& aspect : aspects()) {
    Answers in_base;
    Answers in_next;
    for (const rows::Process& process : base.processes) aspect.add(process, in_base);
    for (const rows::Process& process : next.processes) aspect.add(process, in_next);
    add_change(aspect.name, in_base, in_next, changes);
  }
  add_change("GPU", devices_of(base), devices_of(next), changes);
  return changes;
}

}  // namespace gpumemtrace::tools
