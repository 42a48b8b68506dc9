// SPDX-License-Identifier: Apache-2.0
#include "tools/live/live_state.hpp"

#include <algorithm>
#include <functional>

#include "analyzer/model/program/categories.hpp"
#include "analyzer/rows/report.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Category;
using analyzer::Level;

bool is_of(const LiveRow& row, const rows::Usage& usage) {
  return usage.process == row.process && usage.device == row.device;
}

// True if bytes of the level count for the row: those of the framework if the row has one, else
// those of the driver and of pools. The framework's memory comes from these and must not count
// twice.
bool is_counted_level(const LiveRow& row, Level level) {
  if (row.has_framework) return level == Level::kFramework;
  return level == Level::kDriver || level == Level::kPool;
}

void add_process(const analyzer::JobNow& now, LiveRow& row) {
  const rows::Report& report = now.report;
  for (const rows::Process& process : report.processes) {
    if (process.id != row.process) continue;
    row.pid = process.pid;
    row.host = process.host;
    row.rank = process.rank;
  }
  for (const rows::Trace& trace : report.traces) {
    if (trace.process != row.process) continue;
    row.trace = trace.file;
    row.is_running = trace.end == rows::TraceEnd::kRunning;
    row.missing.assign(trace.incomplete_because.begin(), trace.incomplete_because.end());
  }
  for (const rows::Loss& loss : now.losses.at(row.process)) row.losses[loss.name] = loss.count;
  for (const rows::Device& device : report.devices) {
    if (device.id != row.device) continue;
    row.uuid = device.uuid;
    const auto seen = std::ranges::find(device.seen_as, row.process, &rows::SeenAs::process);
    if (seen != device.seen_as.end()) row.ordinal = seen->ordinal;
    row.capacity_bytes = device.total_bytes;
    const DevicePeaks peaks = peaks_of(report, device);
    if (peaks.job != nullptr) row.job_peak_bytes = peaks.job->high_bytes;
    if (peaks.card != nullptr) row.card_peak_bytes = peaks.card->high_bytes;
  }
  row.time_ns = now.time_ns.at(row.process);
  for (const rows::Step& step : report.steps) {
    if (step.process == row.process) row.step = std::max(row.step.value_or(0), step.index);
  }
}

// Sets how much the row grows in each step, and the time until the first forecast of a full device.
void add_growth(const rows::Report& report, LiveRow& row) {
  for (const rows::Rank& rank : report.ranks) {
    if (rank.process == row.process && rank.device == row.device) {
      row.growth_bytes_per_step = rank.growth_bytes_per_step;
    }
  }
  for (const rows::Growth& growth : report.leaks.growth) {
    if (growth.process != row.process || growth.device != row.device || !growth.forecast_ns) {
      continue;
    }
    const std::uint64_t left =
        *growth.forecast_ns > row.time_ns ? *growth.forecast_ns - row.time_ns : 0;
    row.full_in_ns = std::min(row.full_in_ns.value_or(left), left);
  }
}

// Sets the row's bytes over time, from the timeline with the highest maximum of the levels that
// count.
void add_history(const rows::Report& report, LiveRow& row) {
  const rows::Timeline* highest = nullptr;
  std::uint64_t most = 0;
  for (const rows::Timeline& timeline : report.timeline) {
    const bool is_of_it = timeline.process == row.process && timeline.device == row.device;
    if (!is_of_it || !is_counted_level(row, timeline.level) || timeline.buckets.empty()) continue;
    const std::uint64_t bytes =
        std::ranges::max_element(timeline.buckets, {}, &rows::TimelineBucket::max_bytes)->max_bytes;
    if (highest != nullptr && bytes <= most) continue;
    highest = &timeline;
    most = bytes;
  }
  if (highest == nullptr) return;
  for (const rows::TimelineBucket& bucket : highest->buckets) {
    row.history.push_back({bucket.start_ns, bucket.end_ns, bucket.max_bytes});
  }
  // The latest changes can lie in a bucket of the timeline that is not complete yet.
  const std::uint64_t known_until_ns = row.history.back().end_ns;
  if (row.time_ns > known_until_ns) {
    row.history.push_back({known_until_ns, row.time_ns, row.live_bytes});
  }
}

// Adds the bytes of a process on a device; returns false if it has used no memory there.
bool add_bytes(const rows::Report& report, LiveRow& row) {
  for (const rows::Usage& usage : report.usage) {
    if (is_of(row, usage) && usage.level == Level::kFramework) row.has_framework = true;
  }
  bool has_any = false;
  for (const rows::Usage& usage : report.usage) {
    if (!is_of(row, usage) || !is_counted_level(row, usage.level)) continue;
    has_any = true;
    row.live_bytes += usage.live_bytes_at_end;
    row.is_exact = row.is_exact && usage.is_exact;
    if (row.has_framework && usage.reserved) row.reserved_bytes = usage.reserved->bytes_at_end;
  }
  return has_any;
}

std::vector<LiveRow> rows_of(const analyzer::JobNow& now, const ReportScope& scope) {
  const rows::Report& report = now.report;
  std::vector<LiveRow> found;
  for (const rows::Process& process : report.processes) {
    if (scope.rank && process.rank != *scope.rank) continue;
    bool has_any = false;
    const auto add = [&](const rows::OptionalText& device) {
      LiveRow row;
      row.process = process.id;
      row.device = device;
      if (device && !add_bytes(report, row)) return;
      if (!scope.device.empty() && device && *device != scope.device) return;
      add_process(now, row);
      add_growth(report, row);
      add_history(report, row);
      has_any = true;
      found.push_back(std::move(row));
    };
    for (const rows::Device& device : report.devices) add(device.id);
    if (!has_any && scope.device.empty()) add(std::nullopt);
  }
  return found;
}

std::uint64_t reserved_or_live_bytes(const LiveRow& row) {
  return row.reserved_bytes.value_or(row.live_bytes);
}

bool is_of(const LiveRow& row, const rows::BlockAt& block) {
  return block.at == rows::BlocksAt::kTime && block.process == row.process &&
         block.device == row.device && is_counted_level(row, block.level);
}

std::string category_name(Category category) {
  return category == Category::kUnknown ? "unknown" : std::string(analyzer::name_of(category));
}

// Adds to each row which lines and layers hold the memory that is live.
void add_lines_and_layers(const std::vector<rows::BlockAt>& blocks, std::vector<LiveRow>& rows) {
  std::vector<BytesByName> lines(rows.size());
  std::vector<BytesByName> layers(rows.size());
  for (const rows::BlockAt& block : blocks) {
    const auto row =
        std::ranges::find_if(rows, [&](const LiveRow& known) { return is_of(known, block); });
    if (row == rows.end()) continue;
    if (row->has_framework) row->categories[category_name(block.category)] += block.bytes;
    const auto index = static_cast<std::size_t>(row - rows.begin());
    lines[index][analyzer::name_holder(block.origin)] += block.bytes;
    if (block.layers) layers[index][*block.layers] += block.bytes;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].lines = largest_first(lines[i]);
    rows[i].layers = largest_first(layers[i]);
  }
}

// Sentences about the peaks of each device: "Peak of this job on d0: 810.0 MiB", "Peak of card d0:
// 3.8 GiB (other processes 3.0 GiB)".
std::vector<std::string> peak_sentences(const rows::Report& report,
                                        const std::vector<LiveRow>& shown) {
  std::vector<std::string> sentences;
  for (const rows::Device& device : report.devices) {
    const DevicePeaks peaks = peaks_of(report, device);
    const bool is_shown =
        std::ranges::any_of(shown, [&](const LiveRow& row) { return row.device == device.id; });
    if (peaks.job == nullptr || !is_shown) continue;
    sentences.push_back(
        format_text("Peak of this job on {}: {}", device.id, peak_text(*peaks.job)));
    if (!peaks.shows_both()) continue;
    const std::string besides = besides_job(*peaks.card);
    sentences.push_back(format_text("Peak of card {}: {}{}", device.id, peak_text(*peaks.card),
                                    besides.empty() ? besides : " (" + besides + ")"));
  }
  return sentences;
}

}  // namespace

LiveState live_state_of(const analyzer::JobNow& now, const ReportScope& scope) {
  const rows::Report& report = now.report;
  LiveState state;
  if (!report.processes.empty()) state.name = job_command(report);
  state.is_running = std::ranges::any_of(report.traces, [](const rows::Trace& trace) {
    return trace.end == rows::TraceEnd::kRunning && !trace.source;
  });
  state.is_snapshot = is_of_snapshots(report);
  state.rows = rows_of(now, scope);
  std::ranges::stable_sort(state.rows, std::ranges::greater(), reserved_or_live_bytes);
  state.peaks = peak_sentences(report, state.rows);
  if (report.blocks) add_lines_and_layers(*report.blocks, state.rows);
  return state;
}

}  // namespace gpumemtrace::tools
