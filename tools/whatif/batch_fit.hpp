// SPDX-License-Identifier: Apache-2.0
// Predicts the memory of a program at a batch size that was not recorded: the bytes of each call
// site at the peak of PyTorch's allocated bytes, as a line through two recorded batch sizes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The largest batch size that is taken and answered: with it all sums stay within 64 bits.
inline constexpr std::uint64_t kMaxBatch = 1'000'000;

struct SiteBytes {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// A recorded run at the peak of its largest process and device.
struct FitRun {
  using SiteKey = std::pair<std::string, std::string>;  // the site's name and its category

  std::uint64_t batch = 0;
  std::string process;  // the process's name, such as "rank 2"
  std::string device;
  std::uint64_t processes = 0;  // pairs of process and device with framework memory
  std::uint64_t allocated_bytes = 0;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t>
      other_bytes;                     // on the card outside the framework: contexts, libraries
  std::map<SiteKey, SiteBytes> sites;  // their bytes sum to allocated_bytes
};

// The measurements of a report, which must have blocks[] of the peak. Throws Failure if the peak
// does not show the needs of the batch size: if PyTorch's allocator was not recorded, events are
// missing, or requests were refused.
[[nodiscard]] FitRun fit_run_of(const analyzer::rows::Report& report, std::uint64_t batch);

// The relation of a call site's bytes to the batch size: a line, or the reason why they are none.
enum class FitShape { kLine, kFalls, kOtherCount, kFaster };

struct FitLine {
  std::string site;
  std::string category;
  std::vector<SiteBytes> runs;  // one for each run, in the order of BatchFit::runs
  FitShape shape = FitShape::kLine;
};

// A further run, compared with the prediction of the lines.
struct FitCheck {
  std::uint64_t batch = 0;
  std::uint64_t predicted_bytes = 0;
  std::uint64_t recorded_bytes = 0;

  [[nodiscard]] std::int64_t deviation_bytes() const {
    return static_cast<std::int64_t>(recorded_bytes) - static_cast<std::int64_t>(predicted_bytes);
  }
  [[nodiscard]] double deviation_percent() const;
};

// The prediction for a batch size. Reserved bytes do not grow linearly, so only bounds are known.
// The lower bound is the allocated bytes. The upper bound adds one segment, and the most that a run
// reserved beyond its allocated bytes, in bytes or in proportion, whichever is more.
struct FitPrediction {
  std::uint64_t allocated_bytes = 0;
  std::optional<std::uint64_t> reserved_low_bytes;
  std::optional<std::uint64_t> reserved_high_bytes;
};

struct FitCard {
  std::uint64_t capacity_bytes = 0;
  std::optional<std::uint64_t> batch;  // the largest that fits; 0: not even batch size 1 does
  std::optional<std::uint64_t> margin_bytes;

  GPUMEMTRACE_FIELDS(capacity_bytes, batch, margin_bytes)
};

// The fit of recorded runs: the first two determine a line for each call site, all others check the
// lines. Bytes are rounded up. Sites of shape kFalls or kOtherCount are predicted with the larger
// of their two values, all others with their line.
class BatchFit {
 public:
  // Takes at least two runs. Throws Failure if the first two have the same batch size, if too much
  // of the peak is at call sites that follow no line, or if no part of it depends on the batch
  // size.
  explicit BatchFit(std::vector<FitRun> runs);

  [[nodiscard]] const std::vector<FitRun>& runs() const { return runs_; }
  // The lines, sorted by the bytes in the second run, the largest first.
  [[nodiscard]] const std::vector<FitLine>& lines() const { return lines_; }
  [[nodiscard]] const std::vector<FitCheck>& checks() const { return checks_; }
  // True if there are checks and none deviates by more than 5 %.
  [[nodiscard]] bool is_checked() const { return !checks_.empty() && reason_.empty(); }
  // The reason why nothing is predicted; empty if there are predictions.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  // Twice the largest recorded batch size: predictions beyond are far from the measurements.
  [[nodiscard]] std::uint64_t well_seen_batch() const;
  // The reason why card() gives no batch size; empty if it gives one.
  [[nodiscard]] std::string reason_of_cards() const;

  // A line's value at batch size 0, and its bytes for each item of a batch, to the nearest byte.
  [[nodiscard]] std::int64_t constant_bytes(const FitLine& line) const;
  [[nodiscard]] std::int64_t bytes_per_item(const FitLine& line) const;

  [[nodiscard]] FitPrediction predict(std::uint64_t batch) const;
  [[nodiscard]] FitCard card(std::uint64_t capacity_bytes) const;

 private:
  [[nodiscard]] std::uint64_t bytes_at(const FitLine& line, std::uint64_t batch) const;
  [[nodiscard]] std::uint64_t allocated_at(std::uint64_t batch) const;
  [[nodiscard]] std::optional<std::uint64_t> other_bytes() const;
  void collect_lines();
  void refuse_other_shapes() const;
  void refuse_no_growth() const;
  void check_other_runs();

  std::vector<FitRun> runs_;
  std::vector<FitLine> lines_;
  std::vector<FitCheck> checks_;
  std::string reason_;
};

// The batch sizes and the capacities of cards that a fit is asked about.
struct FitQuestion {
  std::vector<std::uint64_t> batches;
  std::vector<std::uint64_t> capacities;
};

[[nodiscard]] std::string batch_fit_text(const BatchFit& fit, const FitQuestion& question);
[[nodiscard]] std::string batch_fit_json(const BatchFit& fit, const FitQuestion& question);

}  // namespace gpumemtrace::tools
