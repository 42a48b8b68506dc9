// SPDX-License-Identifier: Apache-2.0
// The measurements of one recorded batch size, from its report.
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/whatif/batch_fit.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

template <class Row>
bool is_of(const Row& row, const rows::Peak& peak) {
  return row.process == peak.process && row.device == peak.device;
}

// The process and device that hold most, which decide whether a job fits.
const rows::Peak& largest_peak(const rows::Report& report, FitRun& run) {
  const rows::Peak* largest = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (peak.level != analyzer::Level::kFramework || peak.bytes == 0) continue;
    ++run.processes;
    if (largest == nullptr || peak.bytes > largest->bytes) largest = &peak;
  }
  if (largest == nullptr) {
    throw Failure(format_text("the run of batch {} has no peak: PyTorch's allocator was not seen",
                              run.batch));
  }
  return *largest;
}

// Missing events also leave out who held the peak, or all of it.
void require_every_event(const rows::Report& report, std::uint64_t batch) {
  if (const auto missing = missing_events(report); !missing.empty()) {
    throw Failure(format_text("the run of batch {} misses events: {}", batch, missing.front()));
  }
  if (was_paused(report)) {
    throw Failure(format_text("the recording of batch {} was paused", batch));
  }
}

void read_reserved(const rows::Report& report, const rows::Peak& peak, FitRun& run) {
  for (const rows::Usage& usage : report.usage) {
    if (usage.level != analyzer::Level::kFramework || !is_of(usage, peak)) continue;
    if (usage.failed != 0) {
      throw Failure(format_text(
          "the run of batch {} was refused memory, so its peak is not what that batch size needs",
          run.batch));
    }
    if (usage.reserved) run.reserved_bytes = usage.reserved->peak_bytes;
  }
}

std::optional<std::uint64_t> other_bytes_of(const rows::Composition& row) {
  std::uint64_t bytes = row.pool_used + row.pool_cached;
  for (const rows::OwnersBytes& other : row.other) bytes += other.bytes;
  if (row.context_and_modules) return bytes + *row.context_and_modules;
  if (row.unattributed.value_or(-1) < 0) return std::nullopt;
  return bytes + static_cast<std::uint64_t>(*row.unattributed);
}

void read_sites(const rows::Report& report, const rows::Peak& peak, FitRun& run) {
  std::uint64_t sum = 0;
  for (const rows::BlockAt& block : report.blocks.value_or(std::vector<rows::BlockAt>())) {
    const bool is_wanted = block.at == rows::BlocksAt::kPeak &&
                           block.level == analyzer::Level::kFramework && is_of(block, peak);
    if (!is_wanted) continue;
    SiteBytes& site = run.sites[{name_holder(block.origin), std::string(name_of(block.category))}];
    site.bytes += block.bytes;
    ++site.count;
    sum += block.bytes;
  }
  if (sum != peak.bytes) {
    throw Failure(
        format_text("of the peak of the run of batch {} not every block is known", run.batch));
  }
}

}  // namespace

FitRun fit_run_of(const rows::Report& report, std::uint64_t batch) {
  FitRun run;
  run.batch = batch;
  require_every_event(report, batch);
  const rows::Peak& peak = largest_peak(report, run);
  if (!peak.is_exact) {
    throw Failure(format_text("the peak of the run of batch {} is not exact", batch));
  }
  run.process = process_name(report, peak.process);
  run.device = peak.device.value_or("an unknown device");
  run.allocated_bytes = peak.bytes;
  read_reserved(report, peak, run);
  for (const rows::Composition& row : report.composition) {
    const bool is_peak = row.at == rows::SnapshotAt::kDriverPeak && is_of(row, peak);
    if (is_peak) run.other_bytes = other_bytes_of(row);
  }
  read_sites(report, peak, run);
  return run;
}

}  // namespace gpumemtrace::tools
