// SPDX-License-Identifier: Apache-2.0
// Sections with notes that explain the numbers: why lines lack names, and that a framework
// preallocated memory.
#include <algorithm>

#include "analyzer/frameworks/frameworks.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;

// An allocation of at least this share of a card is taken to be a framework's preallocation.
constexpr double kLeastPreallocated = 0.05;

// True for a place in the program's own code that the trace knows only as an address.
bool is_without_name(const rows::Origin& origin) {
  if (!origin.site || origin.site->language != rows::Language::kNative) return false;
  const rows::Site& site = *origin.site;
  return origin.owner == "program" && site.module && !site.function && !site.file;
}

std::vector<std::string> modules_without_names(const Report& report) {
  std::vector<std::string> modules;
  const auto look_at = [&](const rows::Origin& origin) {
    if (!is_without_name(origin)) return;
    const bool is_new = std::ranges::find(modules, *origin.site->module) == modules.end();
    if (is_new) modules.push_back(*origin.site->module);
  };
  for (const rows::Finding& finding : report.findings) look_at(finding.origin);
  for (const rows::Peak& peak : report.peak) {
    for (const rows::Holder& holder : peak.holders) look_at(holder.origin);
  }
  return modules;
}

Lines symbol_lines(const Report& report, const SummaryDetail& detail) {
  constexpr std::size_t kMostModules = 2;
  std::vector<std::string> modules = modules_without_names(report);
  if (modules.empty()) return {};
  modules.resize(std::min(modules.size(), kMostModules));
  const std::string input = detail.inputs.empty() ? "TRACE" : std::string(detail.inputs);
  return wrapped(
      heading("Symbols   "),
      format_text("no function or line of {} is known here: build it with -g and give its "
                  "folder with --symbols, or run `gpumemtrace symbolize {} -o FILE` on "
                  "the machine of the run and give --symbols FILE",
                  joined(modules), input),
      detail.width);
}

const analyzer::FrameworkInfo& framework_of_holder(const rows::Holder& holder) {
  return analyzer::framework_named(holder.origin.owner.value_or(""));
}

// The largest holder on a device, if it is a single allocation that its framework made in advance;
// nullptr if it is not.
const rows::Holder* find_preallocated(const Report& report, const rows::Usage& usage) {
  for (const rows::Peak& peak : report.peak) {
    const bool is_there = peak.process == usage.process && peak.device == usage.device &&
                          peak.level == usage.level && !peak.holders.empty();
    if (!is_there) continue;
    const auto largest = std::ranges::max_element(peak.holders, {}, &rows::Holder::bytes);
    const bool is_in_advance = !framework_of_holder(*largest).preallocation.allocator.empty();
    return is_in_advance && largest->count == 1 ? &*largest : nullptr;
  }
  return nullptr;
}

Lines preallocation_lines(const Report& report, const SummaryDetail& detail) {
  for (const rows::Usage& usage : report.usage) {
    if (!usage.opaque_pool) continue;
    const rows::Holder* const taken = find_preallocated(report, usage);
    const rows::Device* const device = rows::find_device(report.devices, usage.device);
    if (taken == nullptr || device == nullptr || device->total_bytes.value_or(0) == 0) continue;
    const double share =
        static_cast<double>(taken->bytes) / static_cast<double>(*device->total_bytes);
    if (share < kLeastPreallocated) continue;
    const analyzer::FrameworkInfo& framework = framework_of_holder(*taken);
    const analyzer::Preallocation& preallocation = framework.preallocation;
    return wrapped(heading(format_text("{:<10}", framework.name)),
                   format_text("{} preallocated {}, {:.0f} % of the card, whatever the program "
                               "needs; {}",
                               preallocation.allocator, size_text(taken->bytes), 100 * share,
                               preallocation.advice),
                   detail.width);
  }
  return {};
}

}  // namespace

Blocks recording_section(const Report& report, const SummaryDetail& detail) {
  Blocks blocks;
  for (Lines lines : {preallocation_lines(report, detail), symbol_lines(report, detail)}) {
    if (!lines.empty()) blocks.push_back({std::move(lines), rank::kHint});
  }
  return blocks;
}

}  // namespace gpumemtrace::tools
