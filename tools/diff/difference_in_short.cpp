// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/peak_holders.hpp"
#include "tools/diff/difference.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using rows::PeakOf;

// "2.0 GiB, 1.0 GiB more than BASE".
std::string change_text(std::uint64_t base_bytes, std::uint64_t next_bytes,
                        const std::string& base) {
  const std::string now = size_text(next_bytes);
  if (base_bytes == next_bytes) return format_text("{}, as {}", now, base);
  const bool is_more = next_bytes > base_bytes;
  const std::uint64_t change = is_more ? next_bytes - base_bytes : base_bytes - next_bytes;
  return format_text("{}, {} {} than {}", now, size_text(change), is_more ? "more" : "less", base);
}

// The same of two peaks; between two samples of the driver a peak is a range.
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

// The sum over several ranks.
std::uint64_t peak_of_step(const rows::Report& report, std::uint64_t step) {
  std::uint64_t bytes = 0;
  for (const rows::Step& row : find_step(report, step)) bytes += row.peak_bytes;
  return bytes;
}

// The line that grew most, where what was compared grew.
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

}  // namespace gpumemtrace::tools
