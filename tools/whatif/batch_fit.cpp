// SPDX-License-Identifier: Apache-2.0
#include "tools/whatif/batch_fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// --- The measurements of one recorded batch size, from its report.

namespace {

namespace rows = analyzer::rows;

template <class Row>
bool is_of_peak(const Row& row, const rows::Peak& peak) {
  return row.process == peak.process && row.device == peak.device;
}

bool is_peak_of_framework(const rows::Peak& peak) {
  return peak.level == analyzer::Level::kFramework && peak.bytes != 0;
}

// The framework's largest peak, whose process and device decide whether the job fits.
const rows::Peak& largest_peak(const rows::Report& report, std::uint64_t batch) {
  const rows::Peak* largest = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (!is_peak_of_framework(peak)) continue;
    if (largest == nullptr || peak.bytes > largest->bytes) largest = &peak;
  }
  if (largest == nullptr) {
    throw Failure(format_text("the run of batch {} has no peak: {}'s allocator was not seen", batch,
                              analyzer::framework_with_blocks().name));
  }
  return *largest;
}

// Throws Failure if events are missing: then the report may not show who held the peak, or not the
// true peak.
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
    if (usage.level != analyzer::Level::kFramework || !is_of_peak(usage, peak)) continue;
    if (usage.failed != 0) {
      throw Failure(format_text(
          "the run of batch {} was refused memory, so its peak is not what that batch size needs",
          run.batch));
    }
    if (usage.reserved) run.reserved_bytes = usage.reserved->peak_bytes;
  }
}

// Bytes on the card outside of the framework, such as contexts and libraries; nullopt if the
// driver's number does not tell them.
std::optional<std::uint64_t> other_bytes_of(const rows::Composition& row) {
  std::uint64_t bytes = row.pool_used + row.pool_cached;
  for (const rows::OwnersBytes& other : row.other) bytes += other.bytes;
  if (row.context_and_modules) return bytes + *row.context_and_modules;
  if (row.unattributed.value_or(-1) < 0) return std::nullopt;
  return bytes + static_cast<std::uint64_t>(*row.unattributed);
}

// Sums the framework's blocks at the peak by call site and category. Throws Failure if blocks are
// missing.
void read_sites(const rows::Report& report, const rows::Peak& peak, FitRun& run) {
  std::uint64_t sum = 0;
  for (const rows::BlockAt& block : report.blocks.value_or(std::vector<rows::BlockAt>())) {
    const bool is_wanted = block.at == rows::BlocksAt::kPeak &&
                           block.level == analyzer::Level::kFramework && is_of_peak(block, peak);
    if (!is_wanted) continue;
    SiteBytes& site =
        run.sites[{analyzer::name_holder(block.origin), std::string(name_of(block.category))}];
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
  const rows::Peak& peak = largest_peak(report, batch);
  run.processes =
      static_cast<std::uint64_t>(std::ranges::count_if(report.peak, is_peak_of_framework));
  if (!peak.is_exact) {
    throw Failure(format_text("the peak of the run of batch {} is not exact", batch));
  }
  run.process = process_name(report, peak.process);
  run.device = peak.device.value_or("an unknown device");
  run.allocated_bytes = peak.bytes;
  read_reserved(report, peak, run);
  for (const rows::Composition& row : report.composition) {
    const bool is_peak = row.at == rows::SnapshotAt::kDriverPeak && is_of_peak(row, peak);
    if (is_peak) run.other_bytes = other_bytes_of(row);
  }
  read_sites(report, peak, run);
  return run;
}

// --- The line through the measurements of two recorded batch sizes.

namespace {

// A check whose prediction differs from the recorded bytes by more than this counts as a deviation.
constexpr std::uint64_t kMostDeviationPercent = 5;
// A call site is taken to grow faster than the batch size if its line is below zero at batch 0 by
// more than one part in this many of its bytes; less than that is rounding.
constexpr std::int64_t kRoundingPart = 64;

struct ShapeInfo {
  FitShape shape;
  const char* why;
  // If call sites of this shape hold a larger share of the larger peak, nothing is predicted.
  std::uint64_t most_percent;
};
constexpr ShapeInfo kShapes[] = {
    {FitShape::kFalls, "holds less at the larger batch size", 5},
    {FitShape::kOtherCount,
     "holds another number of blocks, as when the peaks are at different moments of the training",
     5},
    {FitShape::kFaster, "grows faster than the batch size", 1},
};

std::int64_t to_signed(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

// Divides and rounds up; the divisor must be positive.
std::int64_t divide_up(std::int64_t dividend, std::int64_t divisor) {
  const std::int64_t quotient = dividend / divisor;
  return quotient + (dividend % divisor > 0 ? 1 : 0);
}

std::int64_t divide_to_nearest(std::int64_t dividend, std::int64_t divisor) {
  return divide_up(2 * dividend - divisor, 2 * divisor);
}

// The measured bytes of a line at two batch sizes, the smaller one first.
struct Points {
  std::int64_t low_batch = 0;
  std::int64_t high_batch = 0;
  SiteBytes low;
  SiteBytes high;

  [[nodiscard]] std::int64_t width() const { return high_batch - low_batch; }
  [[nodiscard]] std::int64_t growth() const { return to_signed(high.bytes) - to_signed(low.bytes); }
  [[nodiscard]] std::int64_t at(std::int64_t batch) const {
    return to_signed(low.bytes) + divide_up(growth() * (batch - low_batch), width());
  }
};

Points points_of(const FitLine& line, const std::vector<FitRun>& runs) {
  Points points{to_signed(runs[0].batch), to_signed(runs[1].batch), line.runs[0], line.runs[1]};
  if (points.low_batch > points.high_batch) {
    std::swap(points.low_batch, points.high_batch);
    std::swap(points.low, points.high);
  }
  return points;
}

FitShape shape_of(const Points& points) {
  if (points.growth() == 0) return FitShape::kLine;
  if (points.low.count != points.high.count) return FitShape::kOtherCount;
  if (points.growth() < 0) return FitShape::kFalls;
  return points.at(0) < -to_signed(points.high.bytes) / kRoundingPart ? FitShape::kFaster
                                                                      : FitShape::kLine;
}

}  // namespace

double FitCheck::deviation_percent() const {
  return 100.0 * static_cast<double>(deviation_bytes()) / static_cast<double>(recorded_bytes);
}

BatchFit::BatchFit(std::vector<FitRun> runs) : runs_(std::move(runs)) {
  if (runs_[0].batch == runs_[1].batch) {
    throw Failure(format_text("both runs have the batch size {}; a line needs two", runs_[0].batch),
                  ExitCode::kUsage);
  }
  collect_lines();
  refuse_other_shapes();
  refuse_no_growth();
  check_other_runs();
}

// Makes a line for each call site and category of any run; runs without the site have 0 bytes.
void BatchFit::collect_lines() {
  std::map<FitRun::SiteKey, FitLine> lines;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    for (const auto& [key, sums] : runs_[i].sites) {
      FitLine& line = lines[key];
      line.site = key.first;
      line.category = key.second;
      line.runs.resize(runs_.size());
      line.runs[i] = sums;
    }
  }
  for (auto& [key, line] : lines) {
    line.shape = shape_of(points_of(line, runs_));
    lines_.push_back(std::move(line));
  }
  std::ranges::stable_sort(lines_, std::ranges::greater(),
                           [](const FitLine& line) { return line.runs[1].bytes; });
}

// Throws Failure if the call sites of a shape hold more of the peak than that shape may (kShapes).
void BatchFit::refuse_other_shapes() const {
  const std::uint64_t peak = std::max(runs_[0].allocated_bytes, runs_[1].allocated_bytes);
  for (const ShapeInfo& info : kShapes) {
    std::uint64_t bytes = 0;
    const FitLine* largest = nullptr;
    const auto larger = [](const FitLine& line) {
      return std::max(line.runs[0].bytes, line.runs[1].bytes);
    };
    for (const FitLine& line : lines_) {
      if (line.shape != info.shape) continue;
      bytes += larger(line);
      if (largest == nullptr || larger(line) > larger(*largest)) largest = &line;
    }
    if (bytes * 100 <= peak * info.most_percent) continue;
    throw Failure(format_text(
        "the peaks are no line in the batch size: {} {} ({} in {} at batch {}, {} in {} at batch "
        "{}); {} of the peak are such",
        largest->site, info.why, size_text(largest->runs[0].bytes), largest->runs[0].count,
        runs_[0].batch, size_text(largest->runs[1].bytes), largest->runs[1].count, runs_[1].batch,
        size_text(bytes)));
  }
}

void BatchFit::refuse_no_growth() const {
  const bool grows = std::ranges::any_of(lines_, [&](const FitLine& line) {
    return line.shape == FitShape::kFaster ||
           (line.shape == FitShape::kLine && points_of(line, runs_).growth() != 0);
  });
  if (!grows) {
    throw Failure(
        "nothing that is held at the peaks depends on the batch size; record larger ones, whose "
        "peak is at another moment");
  }
}

void BatchFit::check_other_runs() {
  for (std::size_t i = 2; i < runs_.size(); ++i) {
    const FitRun& run = runs_[i];
    FitCheck check{run.batch, allocated_at(run.batch), run.allocated_bytes};
    const auto deviation = static_cast<std::uint64_t>(std::abs(check.deviation_bytes()));
    if (deviation * 100 > run.allocated_bytes * kMostDeviationPercent) {
      reason_ = format_text("the run of batch {} deviates by {:+.1f} % from the lines", run.batch,
                            check.deviation_percent());
    }
    checks_.push_back(check);
  }
}

std::int64_t BatchFit::constant_bytes(const FitLine& line) const {
  const Points points = points_of(line, runs_);
  return to_signed(points.low.bytes) -
         divide_to_nearest(points.growth() * points.low_batch, points.width());
}

std::int64_t BatchFit::bytes_per_item(const FitLine& line) const {
  const Points points = points_of(line, runs_);
  return divide_to_nearest(points.growth(), points.width());
}

std::uint64_t BatchFit::bytes_at(const FitLine& line, std::uint64_t batch) const {
  if (line.shape == FitShape::kFalls || line.shape == FitShape::kOtherCount) {
    return std::max(line.runs[0].bytes, line.runs[1].bytes);
  }
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, points_of(line, runs_).at(to_signed(batch))));
}

std::uint64_t BatchFit::allocated_at(std::uint64_t batch) const {
  std::uint64_t bytes = 0;
  for (const FitLine& line : lines_) bytes += bytes_at(line, batch);
  return bytes;
}

FitPrediction BatchFit::predict(std::uint64_t batch) const {
  FitPrediction prediction{allocated_at(batch), std::nullopt, std::nullopt};
  std::uint64_t most_beyond = 0;
  for (const FitRun& run : runs_) {
    if (!run.reserved_bytes) return prediction;
    const std::uint64_t beyond =
        *run.reserved_bytes - std::min(*run.reserved_bytes, run.allocated_bytes);
    const double growth =
        static_cast<double>(prediction.allocated_bytes) / static_cast<double>(run.allocated_bytes);
    const auto in_proportion =
        static_cast<std::uint64_t>(std::ceil(static_cast<double>(beyond) * growth));
    most_beyond = std::max({most_beyond, beyond, in_proportion});
  }
  prediction.reserved_low_bytes = prediction.allocated_bytes;
  // Blocks that do not fit into a segment open another one, so up to one more segment is reserved.
  prediction.reserved_high_bytes =
      prediction.allocated_bytes + most_beyond + analyzer::framework_with_blocks().segment_bytes;
  return prediction;
}

std::optional<std::uint64_t> BatchFit::other_bytes() const {
  std::uint64_t most = 0;
  for (const FitRun& run : runs_) {
    if (!run.other_bytes) return std::nullopt;
    most = std::max(most, *run.other_bytes);
  }
  return most;
}

std::uint64_t BatchFit::well_seen_batch() const {
  std::uint64_t largest = 0;
  for (const FitRun& run : runs_) largest = std::max(largest, run.batch);
  return 2 * largest;
}

std::string BatchFit::reason_of_cards() const {
  if (!reason_.empty()) return reason_;
  if (!predict(runs_[0].batch).reserved_high_bytes) return "what was reserved is not known";
  if (!other_bytes()) return "what else lies on the card is not known";
  return {};
}

FitCard BatchFit::card(std::uint64_t capacity_bytes) const {
  FitCard card{capacity_bytes, std::nullopt, std::nullopt};
  if (!reason_of_cards().empty()) return card;
  const auto needed = [&](std::uint64_t batch) {
    return *predict(batch).reserved_high_bytes + *other_bytes();
  };
  if (needed(kMaxBatch) <= capacity_bytes) return card;
  // The needed bytes never fall as the batch size grows, so that a binary search finds the largest
  // size that fits.
  std::uint64_t fits = 0;
  std::uint64_t too_large = kMaxBatch;
  while (too_large - fits > 1) {
    const std::uint64_t middle = fits + (too_large - fits) / 2;
    (needed(middle) <= capacity_bytes ? fits : too_large) = middle;
  }
  card.batch = fits;
  if (fits != 0) card.margin_bytes = capacity_bytes - needed(fits);
  return card;
}

}  // namespace gpumemtrace::tools
