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
  using SiteKey = std::pair<std::string, std::string>;  // name and category

  std::uint64_t batch = 0;
  std::string process;  // "rank 2"
  std::string device;
  std::uint64_t processes = 0;  // and devices on which the framework allocated
  std::uint64_t allocated_bytes = 0;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t>
      other_bytes;                     // on the card, not the framework's: contexts, libraries
  std::map<SiteKey, SiteBytes> sites;  // sum to allocated_bytes
};

// Throws Failure for a report whose peak does not show the needs of the batch size: without
// PyTorch's allocator, with missing events, with refused requests. It has blocks[] of the peak.
[[nodiscard]] FitRun fit_run_of(const analyzer::rows::Report& report, std::uint64_t batch);

// The reason why a site's bytes are no line in the batch size.
enum class FitShape { kLine, kFalls, kOtherCount, kFaster };

struct FitLine {
  std::string site;
  std::string category;
  std::vector<SiteBytes> runs;  // in the order of BatchFit::runs
  FitShape shape = FitShape::kLine;
};

// A run beside the first two, compared with their lines.
struct FitCheck {
  std::uint64_t batch = 0;
  std::uint64_t predicted_bytes = 0;
  std::uint64_t recorded_bytes = 0;

  [[nodiscard]] std::int64_t deviation_bytes() const {
    return static_cast<std::int64_t>(recorded_bytes) - static_cast<std::int64_t>(predicted_bytes);
  }
  [[nodiscard]] double deviation_percent() const;
};

// Reserved bytes are no line. They are no less than the allocated bytes, and taken to be no more
// than that, the most that a run had reserved beyond its own, as bytes and in proportion, and a
// segment.
struct FitPrediction {
  std::uint64_t allocated_bytes = 0;
  std::optional<std::uint64_t> reserved_low_bytes;
  std::optional<std::uint64_t> reserved_high_bytes;
};

struct FitCard {
  std::uint64_t capacity_bytes = 0;
  std::optional<std::uint64_t> batch;  // 0: not even one fits
  std::optional<std::uint64_t> margin_bytes;

  GPUMEMTRACE_FIELDS(capacity_bytes, batch, margin_bytes)
};

// The first two runs make the lines; all others check them. Bytes are rounded up. A site that is no
// line (FitShape) stays at the larger of its two values, but one that grows faster follows its
// line.
class BatchFit {
 public:
  // At least two runs. Throws Failure if the first two have the same batch size, too much of
  // the peak is no line, or nothing of it depends on the batch size.
  explicit BatchFit(std::vector<FitRun> runs);

  [[nodiscard]] const std::vector<FitRun>& runs() const { return runs_; }
  // Those that hold most in the second run first.
  [[nodiscard]] const std::vector<FitLine>& lines() const { return lines_; }
  [[nodiscard]] const std::vector<FitCheck>& checks() const { return checks_; }
  // A check was given and none deviates by more than 5 %.
  [[nodiscard]] bool is_checked() const { return !checks_.empty() && reason_.empty(); }
  // Why nothing is predicted; empty if something is.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  // Beyond that, twice the largest recorded, a batch size is far from what was seen.
  [[nodiscard]] std::uint64_t well_seen_batch() const;
  // Why cards have no batch size; empty if they have.
  [[nodiscard]] std::string reason_of_cards() const;

  // The line's value at batch 0, and what each item adds, to the nearest byte.
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

// The question to a fit.
struct FitQuestion {
  std::vector<std::uint64_t> batches;
  std::vector<std::uint64_t> capacities;
};

[[nodiscard]] std::string batch_fit_text(const BatchFit& fit, const FitQuestion& question);
[[nodiscard]] std::string batch_fit_json(const BatchFit& fit, const FitQuestion& question);

}  // namespace gpumemtrace::tools
