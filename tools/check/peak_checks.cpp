// SPDX-License-Identifier: Apache-2.0
#include "tools/check/peak_checks.hpp"

#include <algorithm>
#include <set>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using rows::PeakOf;

constexpr std::size_t kMaxHoldersNamed = 5;
constexpr const char* kPhysical = "physical";

void name_largest(PolicyCheck& check, std::vector<HeldBytes> holders, std::string title) {
  if (check.holds) return;
  if (holders.size() > kMaxHoldersNamed) holders.resize(kMaxHoldersNamed);
  check.holders_title = std::move(title);
  check.holders = std::move(holders);
}

std::string peak_range_text(const rows::CardPeak& row) {
  const std::string low = size_text(row.low_bytes);
  const std::string high = size_text(row.high_bytes);
  return low == high ? format_text("{} to {} bytes", format_count(row.low_bytes),
                                   format_count(row.high_bytes))
                     : format_text("{} to {}", low, high);
}

// Judges a peak that is a range, because the driver's use is known only from samples. The check
// holds if the upper bound is within the limit. If only the lower bound is, the check does not
// hold, but its message says that this is not certain. `allowed` is the limit in words.
PolicyCheck judge_range(const rows::CardPeak& row, std::uint64_t allowed_bytes,
                        const std::string& allowed) {
  PolicyCheck check;
  check.holds = row.high_bytes <= allowed_bytes;
  check.limited = LimitedBytes{row.low_bytes, row.high_bytes, allowed_bytes};
  if (check.holds) {
    check.message = format_text("{} at the peak, {}", size_text(row.high_bytes), allowed);
  } else if (row.low_bytes > allowed_bytes) {
    const bool is_range = row.low_bytes != row.high_bytes;
    check.message = format_text("{}{} at the peak, {}", is_range ? "at least " : "",
                                size_text(row.low_bytes), allowed);
  } else {
    check.message = format_text(
        "not certain: {} at the peak, {}; what the driver took between two samples is not known",
        peak_range_text(row), allowed);
  }
  return check;
}

std::string allowed_text(std::uint64_t bytes) { return size_text(bytes) + " allowed"; }

// The answer for a peak that is one number, not a range.
PolicyCheck judge_bytes(std::uint64_t bytes, std::uint64_t allowed_bytes, std::string message) {
  PolicyCheck check;
  check.message = std::move(message);
  check.holds = bytes <= allowed_bytes;
  check.limited = LimitedBytes{bytes, bytes, allowed_bytes};
  return check;
}

PolicyCheck check_card_peak(const rows::Report& report, const rows::CardPeak& row,
                            const PeakLimit& limit) {
  PolicyCheck check = judge_range(row, limit.bytes, allowed_text(limit.bytes));
  check.name = "max-peak";
  check.subject = std::string(name_of(row.of));
  if (row.device) check.subject += " on " + *row.device;
  name_largest(check, holders_at(report, {row.of, {}, row.device, {}}),
               "Held most, each line at the peak of its allocator:");
  return check;
}

// Judges the sum that the processes asked for on a device: for a limit on "physical", and for a
// limit on the job if an older report has no peak of the job.
PolicyCheck check_physical_peak(const rows::Report& report, const rows::Device& device,
                                const PeakLimit& limit) {
  const std::uint64_t bytes = device.physical_peak ? device.physical_peak->bytes : 0;
  PolicyCheck check =
      judge_bytes(bytes, limit.bytes,
                  format_text("{} at the peak, {}", size_text(bytes), allowed_text(limit.bytes)));
  check.name = "max-peak";
  check.subject = "physical on " + device.id;
  if (limit.level.empty()) {
    check.message +=
        "; only what the processes asked for counts, as this report has no peak of the job";
  }
  name_largest(check, holders_at(report, {{}, {}, device.id, {}}), "Held most:");
  return check;
}

PolicyCheck check_level(const rows::Report& report, const rows::Peak& row, const PeakLimit& limit) {
  PolicyCheck check = judge_bytes(
      row.bytes, limit.bytes,
      format_text("{} at the peak, {}", size_text(row.bytes), allowed_text(limit.bytes)));
  check.name = "max-peak";
  check.subject = limit.level;
  if (row.device) check.subject += " on " + *row.device;
  if (report.processes.size() > 1) check.subject += " in " + process_name(report, row.process);
  name_largest(check, holders_at(report, {{}, row.level, row.device, row.process}), "Held most:");
  return check;
}

bool has_peak_of_job(const rows::Report& report) {
  return highest_card_peak(report, PeakOf::kJob) != nullptr;
}

// Names the holders that grew since the baseline; if it has no holders for the level, the largest
// ones.
void name_grown(PolicyCheck& check, const rows::Report& report, const std::string& level,
                const BaselineEntry& known) {
  const auto lines = known.holders.find(level);
  std::vector<HeldBytes> now = holders_of_level(report, level);
  const bool knows_lines = lines != known.holders.end();
  if (knows_lines) now = grown(std::move(now), lines->second);
  name_largest(check, std::move(now),
               knows_lines ? "Grew most:"
                           : format_text("{} most (the baseline has no lines to tell who grew; "
                                         "write it again):",
                                         level == kTransfers ? "Copied" : "Held"));
}

// The reason why the job's peak cannot be compared with the baseline's, so that only the memory
// that the processes asked for is compared.
std::string without_contexts_text(const rows::Report& report, const BaselineEntry& known) {
  if (highest_card_peak(report, PeakOf::kJob) == nullptr) {
    return "this report has no peak of the job";
  }
  if (!known.peak_bytes.contains(kPeakOfJob)) return "an older version wrote the baseline";
  return "another driver takes another amount for contexts";
}

// The allowed bytes in words: "100.0 MiB in the baseline, 108.0 MiB allowed".
std::string limit_text(std::uint64_t allowed_bytes, std::uint64_t base_bytes) {
  return format_text("{} in the baseline, {}", size_text(base_bytes), allowed_text(allowed_bytes));
}

PolicyCheck judge_growth(std::uint64_t bytes, std::uint64_t base_bytes,
                         const RegressionLimit& limit) {
  const std::uint64_t allowed = limit.allowed_bytes(base_bytes);
  return judge_bytes(bytes, allowed,
                     format_text("{}, {}", size_text(bytes), limit_text(allowed, base_bytes)));
}

}  // namespace

std::vector<PolicyCheck> checks_of_limit(const rows::Report& report, const PeakLimit& limit) {
  const auto is_meant = [&](const rows::OptionalText& device) {
    return limit.device.empty() || limit.device == device;
  };
  std::vector<PolicyCheck> checks;
  if (limit.level.empty()) {
    for (const rows::CardPeak& row : report.card_peaks) {
      if (row.of == limit.of && is_meant(row.device)) {
        checks.push_back(check_card_peak(report, row, limit));
      }
    }
  }
  const bool is_old = limit.level.empty() && limit.of == PeakOf::kJob && !has_peak_of_job(report);
  if (is_old || limit.level == kPhysical) {
    for (const rows::Device& device : report.devices) {
      if (is_meant(device.id)) checks.push_back(check_physical_peak(report, device, limit));
    }
  }
  for (const rows::Peak& row : report.peak) {
    if (limit.level.empty() || name_of(row.level) != limit.level || !is_meant(row.device)) continue;
    checks.push_back(check_level(report, row, limit));
  }
  return checks;
}

std::string names_of_peaks(const rows::Report& report) {
  const auto name = [](std::string_view peak, const rows::OptionalText& device) {
    return std::string(peak) + (device ? " on " + *device : "");
  };
  std::set<std::string> whole;
  std::set<std::string> parts;
  for (const rows::CardPeak& row : report.card_peaks) {
    whole.insert(name(name_of(row.of), row.device));
  }
  for (const rows::Device& row : report.devices) parts.insert(name(kPhysical, row.id));
  for (const rows::Peak& row : report.peak) parts.insert(name(name_of(row.level), row.device));
  std::vector<std::string> names(whole.begin(), whole.end());
  names.insert(names.end(), parts.begin(), parts.end());
  return names.empty() ? "none" : joined(names);
}

std::optional<std::uint64_t> base_peak_of_job(const rows::Report& report,
                                              const BaselineEntry& known) {
  const auto found = known.peak_bytes.find(kPeakOfJob);
  const bool is_known = found != known.peak_bytes.end() && is_of_same_driver(report, known);
  return is_known ? std::optional(found->second) : std::nullopt;
}

std::vector<PolicyCheck> checks_of_growth(const rows::Report& report, const BaselineEntry& known,
                                          const RegressionLimit& limit) {
  std::vector<PolicyCheck> checks;
  const auto add = [&](PolicyCheck check, const std::string& level) {
    check.name = "max-regression";
    check.subject = level + " peak";
    check.baseline_can_accept = true;
    name_grown(check, report, level, known);
    checks.push_back(std::move(check));
  };
  const rows::CardPeak* const job = highest_card_peak(report, PeakOf::kJob);
  const std::optional<std::uint64_t> base_of_job = base_peak_of_job(report, known);
  const bool compares_job = job != nullptr && base_of_job;
  if (compares_job) {
    const std::uint64_t allowed = limit.allowed_bytes(*base_of_job);
    add(judge_range(*job, allowed, limit_text(allowed, *base_of_job)), kPeakOfJob);
  }
  for (const auto& [level, bytes] : peaks_of(report)) {
    const auto base = known.peak_bytes.find(level);
    PolicyCheck check =
        judge_growth(bytes, base == known.peak_bytes.end() ? 0 : base->second, limit);
    const bool either_has_job_peak = job != nullptr || known.peak_bytes.contains(kPeakOfJob);
    if (level == kPhysical && either_has_job_peak && !compares_job) {
      check.message += "; compared without contexts, as " + without_contexts_text(report, known);
    }
    add(std::move(check), level);
  }
  return checks;
}

PolicyCheck check_of_copies(const rows::Report& report, std::uint64_t allowed_bytes) {
  const std::uint64_t bytes = transfer_bytes_of(report);
  PolicyCheck check = judge_bytes(bytes, allowed_bytes,
                                  format_text("{} copied between host and devices, {}",
                                              size_text(bytes), allowed_text(allowed_bytes)));
  check.name = "max-transfer";
  name_largest(check, holders_of_level(report, kTransfers), "Copied most:");
  return check;
}

PolicyCheck check_of_grown_copies(const rows::Report& report, const BaselineEntry& known,
                                  const RegressionLimit& limit) {
  PolicyCheck check = judge_growth(transfer_bytes_of(report), known.transfer_bytes, limit);
  check.name = "max-regression";
  check.subject = kTransfers;
  check.baseline_can_accept = true;
  name_grown(check, report, kTransfers, known);
  return check;
}

}  // namespace gpumemtrace::tools
