// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>

#include "analyzer/base/row_text.hpp"
#include "analyzer/base/words.hpp"
#include "analyzer/frameworks/frameworks.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/whatif/batch_fit.hpp"
#include "tools/whatif/what_if_text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

constexpr std::size_t kMaxLinesShown = 10;
constexpr std::size_t kSiteWidth = 41;

const char* word_of(FitShape shape) {
  constexpr std::array<const char*, 4> kWords = {"line", "falls", "other_count", "faster"};
  return kWords[static_cast<std::size_t>(shape)];
}

const char* basis_of(const BatchFit& fit) { return fit.is_checked() ? "checked" : "arithmetic"; }

std::string known_size(const std::optional<std::uint64_t>& bytes) {
  return bytes ? size_text(*bytes) : "not known";
}

std::string signed_size(std::int64_t bytes) {
  return bytes < 0 ? "-" + size_text(static_cast<std::uint64_t>(-bytes))
                   : size_text(static_cast<std::uint64_t>(bytes));
}

std::string reserved_range_text(const FitPrediction& prediction) {
  if (!prediction.reserved_high_bytes) return "not known";
  const std::string low = size_text(*prediction.reserved_low_bytes);
  const std::string high = size_text(*prediction.reserved_high_bytes);
  return low == high ? low : low + " to " + high;
}

std::string runs_text(const BatchFit& fit) {
  std::string text = format_text("{:>9} {:>11} {:>11} {:>11}  {}\n", "batch", "allocated",
                                 "reserved", "other", "whose");
  for (const FitRun& run : fit.runs()) {
    std::string whose = run.process + " on " + run.device;
    if (run.processes > 1) whose += format_text(", largest of {}", run.processes);
    text += format_text("{:>9} {:>11} {:>11} {:>11}  {}\n", format_count(run.batch),
                        size_text(run.allocated_bytes), known_size(run.reserved_bytes),
                        known_size(run.other_bytes), whose);
  }
  return text;
}

std::string checks_text(const BatchFit& fit) {
  if (fit.checks().empty()) {
    return "Two runs lie on a line whatever they are; a third one checks it.\n";
  }
  std::string text;
  for (const FitCheck& check : fit.checks()) {
    const std::int64_t deviation = check.deviation_bytes();
    text += format_text("Check: batch {} held {}, the lines say {}:\n  {}{} bytes ({:+.2f} %).\n",
                        check.batch, size_text(check.recorded_bytes),
                        size_text(check.predicted_bytes), deviation < 0 ? "-" : "+",
                        format_count(static_cast<std::uint64_t>(std::abs(deviation))),
                        check.deviation_percent());
  }
  return text;
}

std::string fitted_lines_text(const BatchFit& fit) {
  std::string text =
      format_text("\n{:>10} {:>10}  {:<15} {}\n", "constant", "per item", "category", "call site");
  std::size_t shown = 0;
  for (const FitLine& line : fit.lines()) {
    if (++shown > kMaxLinesShown) continue;
    const std::string category =
        line.category.empty() ? "not told" : analyzer::in_words(line.category);
    const bool is_line = line.shape == FitShape::kLine;
    text +=
        format_text("{:>10} {:>10}  {:<15} {}\n", signed_size(fit.constant_bytes(line)),
                    signed_size(fit.bytes_per_item(line)), is_line ? category : word_of(line.shape),
                    short_site(line.site, kSiteWidth));
  }
  if (shown > kMaxLinesShown) {
    text += format_text("  and {} more; --json has all\n", shown - kMaxLinesShown);
  }
  return text;
}

std::string cards_text(const BatchFit& fit, const std::vector<std::uint64_t>& capacities) {
  if (const std::string reason = fit.reason_of_cards(); !reason.empty()) {
    return "Largest batch by card: not known,\n  " + reason + ".\n";
  }
  std::string text = format_text("{:>9} {:>11} {:>11}\n", "card", "batch", "margin");
  for (const std::uint64_t capacity : capacities) {
    const FitCard card = fit.card(capacity);
    std::string batch = card.batch ? format_count(*card.batch) : "any";
    if (card.batch == 0u) batch = "none";
    text += format_text("{:>9} {:>11}", card_text(capacity), batch);
    if (card.margin_bytes) text += format_text(" {:>11}", size_text(*card.margin_bytes));
    text += "\n";
  }
  return text;
}

std::string extrapolation_text(const BatchFit& fit, const FitQuestion& question) {
  const std::uint64_t seen = fit.well_seen_batch();
  std::uint64_t largest = 0;
  for (const std::uint64_t batch : question.batches) largest = std::max(largest, batch);
  for (const std::uint64_t capacity : question.capacities) {
    largest = std::max(largest, fit.card(capacity).batch.value_or(0));
  }
  if (largest <= seen) return {};
  return format_text(
      "Batch sizes beyond {}, twice the largest recorded, are far from what was seen.\n",
      format_count(seen));
}

struct FitRunRow {
  std::uint64_t batch = 0;
  std::string process;
  std::string device;
  std::uint64_t allocated_peak_bytes = 0;
  rows::OptionalNumber reserved_peak_bytes;
  rows::OptionalNumber other_bytes;

  GPUMEMTRACE_FIELDS(batch, process, device, allocated_peak_bytes, reserved_peak_bytes, other_bytes)
};

struct FitLineRow {
  std::string site;
  rows::OptionalText category;
  std::vector<std::uint64_t> bytes;  // the site's bytes in each run
  std::vector<std::uint64_t> counts;
  std::int64_t constant_bytes = 0;
  std::int64_t bytes_per_item = 0;
  std::string shape;

  GPUMEMTRACE_FIELDS(site, category, bytes, counts, constant_bytes, bytes_per_item, shape)
};

struct FitCheckRow {
  std::uint64_t batch = 0;
  std::uint64_t predicted_bytes = 0;
  std::uint64_t recorded_bytes = 0;
  std::int64_t deviation_bytes = 0;
  double deviation_percent = 0;

  GPUMEMTRACE_FIELDS(batch, predicted_bytes, recorded_bytes, deviation_bytes, deviation_percent)
};

struct FitPredictionRow {
  std::uint64_t batch = 0;
  rows::OptionalNumber allocated_peak_bytes;
  rows::OptionalNumber reserved_low_bytes;
  rows::OptionalNumber reserved_high_bytes;

  GPUMEMTRACE_FIELDS(batch, allocated_peak_bytes, reserved_low_bytes, reserved_high_bytes)
};

struct FitRow {
  std::string basis;
  rows::OptionalText reason;
  std::vector<FitRunRow> runs;
  std::vector<FitLineRow> lines;
  std::vector<FitCheckRow> checks;
  std::vector<FitPredictionRow> predictions;
  std::vector<FitCard> cards;
  rows::OptionalText cards_reason;

  GPUMEMTRACE_FIELDS(basis, reason, runs, lines, checks, predictions, cards, cards_reason)
};

struct FitFile {
  FitRow fit;

  GPUMEMTRACE_FIELDS(fit)
};

FitPredictionRow fit_row(const BatchFit& fit, std::uint64_t batch) {
  if (!fit.reason().empty()) return {batch, {}, {}, {}};
  const FitPrediction prediction = fit.predict(batch);
  return {batch, prediction.allocated_bytes, prediction.reserved_low_bytes,
          prediction.reserved_high_bytes};
}

FitLineRow fit_row(const BatchFit& fit, const FitLine& line) {
  FitLineRow row{line.site,
                 rows::text_or_none(line.category),
                 {},
                 {},
                 fit.constant_bytes(line),
                 fit.bytes_per_item(line),
                 std::string(word_of(line.shape))};
  for (const SiteBytes& run : line.runs) {
    row.bytes.push_back(run.bytes);
    row.counts.push_back(run.count);
  }
  return row;
}

}  // namespace

std::string batch_fit_text(const BatchFit& fit, const FitQuestion& question) {
  std::string text = format_text("Batch size from {} recordings, basis: {}\n\n", fit.runs().size(),
                                 basis_of(fit)) +
                     runs_text(fit) + checks_text(fit) + fitted_lines_text(fit) + "\n";
  for (const std::uint64_t batch : question.batches) {
    if (!fit.reason().empty()) {
      text += format_text("Batch {}: not known,\n  {}.\n", format_count(batch), fit.reason());
      continue;
    }
    const FitPrediction prediction = fit.predict(batch);
    text += format_text("Batch {}: allocated {}, reserved {}\n", format_count(batch),
                        size_text(prediction.allocated_bytes), reserved_range_text(prediction));
  }
  return text + cards_text(fit, question.capacities) + extrapolation_text(fit, question) +
         "\nallocated: linear in the batch size at each call site, as long as the peak is at\n"
         "the same moment of the training; reserved: an estimate, allocated and at most\n"
         "what the runs had beyond it (in bytes or in proportion) and one segment of\n"
         "20 MiB; other: on the card and not " +
         std::string(analyzer::framework_with_blocks().name) +
         "'s, taken as constant; card: the\n"
         "largest batch with room for all, 1 GB = 10^9 bytes. Only the batch size may\n"
         "differ between the runs.\n";
}

std::string batch_fit_json(const BatchFit& fit, const FitQuestion& question) {
  FitFile file;
  FitRow& row = file.fit;
  row.basis = basis_of(fit);
  row.reason = rows::text_or_none(fit.reason());
  for (const FitRun& run : fit.runs()) {
    row.runs.push_back({run.batch, run.process, run.device, run.allocated_bytes, run.reserved_bytes,
                        run.other_bytes});
  }
  for (const FitLine& line : fit.lines()) row.lines.push_back(fit_row(fit, line));
  for (const FitCheck& check : fit.checks()) {
    row.checks.push_back({check.batch, check.predicted_bytes, check.recorded_bytes,
                          check.deviation_bytes(), check.deviation_percent()});
  }
  for (const std::uint64_t batch : question.batches) {
    row.predictions.push_back(fit_row(fit, batch));
  }
  for (const std::uint64_t capacity : question.capacities) {
    row.cards.push_back(fit.card(capacity));
  }
  row.cards_reason = rows::text_or_none(fit.reason_of_cards());
  return analyzer::json_text(file, analyzer::JsonLayout::kIndented) + "\n";
}

}  // namespace gpumemtrace::tools
