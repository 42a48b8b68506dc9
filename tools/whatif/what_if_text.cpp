// SPDX-License-Identifier: Apache-2.0
#include "tools/whatif/what_if_text.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::framework_with_blocks;
using analyzer::FrameworkInfo;
using analyzer::Level;
using analyzer::rows::Holder;
using analyzer::rows::OptionalNumber;
using analyzer::rows::Peak;
using analyzer::rows::Report;
using analyzer::rows::Usage;
using analyzer::rows::WhatIf;
using analyzer::rows::WhatIfBasis;
using analyzer::rows::WhatIfFit;
using analyzer::rows::WhatIfLine;
using analyzer::rows::WhatIfRow;

constexpr std::size_t kWidth = 80;
constexpr std::size_t kSettingWidth = 25;
constexpr std::size_t kPlaceWidth = 52;
constexpr std::size_t kMostLines = 5;  // source lines shown, over all causes of unusable bytes
constexpr std::uint64_t kBytesPerGb = 1'000'000'000;

// Wraps words into lines of kWidth columns; all but the first are indented.
StyledText paragraph(const StyledText& head, const std::string& text, std::size_t indent) {
  StyledText lines;
  for (const StyledText& line : wrapped(head, text, kWidth, indent)) lines += line + "\n";
  return lines;
}

std::string peak_of(const WhatIfRow& row) {
  if (!row.reserved_peak_bytes) return "not known";
  return size_text(*row.reserved_peak_bytes);
}

// The bounds of the peak as text; empty if it is exact or both bounds print the same.
std::string range_of(const WhatIfRow& row) {
  if (!row.low_bytes || row.low_bytes == row.high_bytes) return {};
  if (!row.high_bytes) return "at least " + size_text(*row.low_bytes);
  const std::string range = tools::range_text(*row.low_bytes, *row.high_bytes);
  return range == size_text(*row.high_bytes) ? std::string() : range;
}

// The change by a setting: "-882.0 MiB" if it saves memory, "+2.0 MiB" if it needs more.
std::string change_by_setting(const WhatIfRow& row, const WhatIfRow& recorded) {
  if (!row.reserved_peak_bytes || !recorded.reserved_peak_bytes) return "";
  if (row.basis == WhatIfBasis::kBracket) return "";
  const std::uint64_t now = *recorded.reserved_peak_bytes;
  const std::uint64_t then = *row.reserved_peak_bytes;
  if (&row == &recorded) return "";
  if (now == then) return "0";
  return now > then ? "-" + size_text(now - then) : "+" + size_text(then - now);
}

std::string count_or_nothing(const OptionalNumber& number) {
  return number ? format_count(*number) : "";
}

// The smallest of the tried cards that has room, as do all larger ones.
std::string card_of(const WhatIfRow& row) {
  std::vector<WhatIfFit> fits = row.fits;
  std::ranges::sort(fits, std::ranges::greater(), &WhatIfFit::capacity_bytes);
  std::string card;
  for (const WhatIfFit& fit : fits) {
    if (!fit.fits) return card.empty() ? "?" : card;
    if (!*fit.fits) return card.empty() ? "none" : card;
    card = card_text(fit.capacity_bytes);
  }
  return card;
}

std::string here_of(const WhatIfRow& row) {
  if (!row.raised) return "?";
  return *row.raised == 0 ? "yes" : "no";
}

// The cells of a table row after the name of the setting.
std::string table_line(const std::string& peak, const std::string& change,
                       const std::string& retries, const std::string& calls,
                       const std::string& here, const std::string& card, const std::string& basis) {
  return format_text(" {:>10} {:>10} {:>3} {:>6} {:>4} {:>6} {}\n", peak, change, retries, calls,
                     here, card, basis);
}

// Settings with the same outcome, which differ in their value alone.
struct SettingLines {
  std::string name;    // setting's name: "max_split_size_mb:"
  std::string values;  // its values: "64, 128"
  std::string outcome;

  [[nodiscard]] std::string text() const {
    const std::string setting = name + values;
    if (setting.size() > kSettingWidth) {
      return setting + "\n" + std::string(kSettingWidth, ' ') + outcome;
    }
    return format_text("{:<{}}{}", setting, kSettingWidth, outcome);
  }
};

SettingLines setting_lines(const WhatIfRow& row, const WhatIfRow& recorded) {
  const std::size_t value_at = row.policy.rfind(':') + 1;  // 0 if the setting has no value
  std::string basis(name_of(row.basis));
  if (row.warning) basis += " !";
  std::string outcome =
      table_line(peak_of(row), change_by_setting(row, recorded), count_or_nothing(row.retries),
                 count_or_nothing(row.segment_calls), here_of(row), card_of(row), basis);
  if (const std::string range = range_of(row); !range.empty()) outcome += "    " + range + "\n";
  return {row.policy.substr(0, value_at), row.policy.substr(value_at), std::move(outcome)};
}

// The rows of the table. Neighbouring values of a setting with the same outcome share a row.
std::string settings_text(const WhatIf& device) {
  std::vector<SettingLines> list;
  for (const WhatIfRow& row : device.rows) {
    SettingLines lines = setting_lines(row, device.rows.front());
    const bool is_like_last = !list.empty() && !lines.name.empty() &&
                              list.back().name == lines.name &&
                              list.back().outcome == lines.outcome;
    if (is_like_last) {
      list.back().values += ", " + lines.values;
    } else {
      list.push_back(std::move(lines));
    }
  }
  std::string text;
  for (const SettingLines& lines : list) text += lines.text();
  return text;
}

std::string times_text(std::uint64_t times) {
  return times == 1 ? "once" : format_count(times) + " times";
}

std::string framework_name() { return std::string(framework_with_blocks().name); }

// True if the process did not use the framework's allocator: then the first row, the recorded one,
// names no settings.
bool is_without_framework(const WhatIf& device) { return !device.rows.front().options; }

// The settings of the recorded run, and whether its replay gave the recorded addresses and sizes.
std::string proof_text(const WhatIf& device) {
  const std::string framework = framework_name();
  if (is_without_framework(device)) {
    return "Recorded without " + framework +
           ": the program asks the driver itself. The other rows say what " + framework +
           "'s allocator would have taken for the same requests. Where a library has a pool of its "
           "own, its segments are the requests.";
  }
  const auto& recorded = device.recorded;
  std::string text = "Recorded with: ";
  text +=
      recorded.options.empty() ? framework + "'s default settings" : std::string(recorded.options);
  if (recorded.changes != 0) {
    text += ", which the program changed " + times_text(recorded.changes) + " while it ran";
  }
  if (recorded.memory_fraction && *recorded.memory_fraction < 1) {
    text +=
        format_text("; {} was allowed {:.4g} of the card", framework, *recorded.memory_fraction);
  }
  text += ". ";
  if (!recorded.proven) {
    return text +
           "The driver's own pool dealt the blocks, whose rules cannot be replayed; the "
           "sizes and streams are those of the calls.";
  }
  if (*recorded.proven) {
    text += "Proof: replayed by " + framework + "'s rules, all " + format_count(recorded.events) +
            " calls had the recorded address, size and totals.";
    if (recorded.classes > 1) {
      text += " " + format_count(recorded.classes) + " streams and pools have memory of their own.";
    }
    return text;
  }
  if (!recorded.first_mismatch) return text + "Not proven: nothing was compared.";
  return text + "Not proven: " + *recorded.first_mismatch + ". " +
         std::string(framework_with_blocks().mismatch_causes);
}

// The warnings and reasons of all rows, each once: after the setting's name, or after "Note" if
// several rows share it.
StyledText setting_notes(const WhatIf& device) {
  std::map<std::string, std::string> by_note;
  std::vector<std::string> order;
  const auto add = [&](const analyzer::rows::OptionalText& note, const std::string& policy) {
    if (!note) return;
    std::string& names = by_note[*note];
    if (names.empty()) order.push_back(*note);
    names += (names.empty() ? "" : "; ") + policy;
  };
  for (const WhatIfRow& row : device.rows) {
    add(row.warning, row.policy);
    add(row.reason, row.policy);
  }
  StyledText text;
  for (const std::string& note : order) {
    const bool is_common = by_note[note].find("; ") != std::string::npos;
    text += paragraph(is_common ? StyledText("Note", Style::kDoubtful) : StyledText(by_note[note]),
                      ": " + note + ".", 4);
  }
  return text;
}

// The setting with the least memory among those with which the run finishes and whose replay is no
// guess. It must need less than the recorded run, unless that run was refused memory.
const WhatIfRow* best_row(const WhatIf& device) {
  const WhatIfRow& recorded = device.rows.front();
  if (!recorded.reserved_peak_bytes) return nullptr;
  const WhatIfRow* best = nullptr;
  const bool must_finish = recorded.raised.value_or(0) != 0;
  for (const WhatIfRow& row : device.rows) {
    const bool is_known = row.basis == WhatIfBasis::kReplayed || row.basis == WhatIfBasis::kSampled;
    if (!is_known || !row.high_bytes || row.warning || !row.options || row.raised != 0u) continue;
    if (!must_finish && *row.high_bytes >= *recorded.reserved_peak_bytes) continue;
    if (best == nullptr || *row.high_bytes < *best->high_bytes) best = &row;
  }
  return best;
}

// A sentence about the peak with the framework's default settings, if they avoid calls to the
// driver.
StyledText pool_text(const WhatIf& device) {
  const std::uint64_t calls = device.rows.front().segment_calls.value_or(0);
  for (const WhatIfRow& row : device.rows) {
    if (row.options != "" || !row.reserved_peak_bytes || *row.segment_calls >= calls) continue;
    return paragraph("",
                     "With a pool of this kind (" + row.policy + ") it would have been " +
                         size_text(*row.reserved_peak_bytes) +
                         ", and calls of the driver: " + format_count(*row.segment_calls) +
                         " instead of " + format_count(calls) + ".",
                     2);
  }
  return {};
}

StyledText advice_text(const WhatIf& device) {
  if (is_without_framework(device)) return pool_text(device);
  const WhatIfRow& recorded = device.rows.front();
  const WhatIfRow* const best = best_row(device);
  if (best == nullptr) {
    return recorded.raised.value_or(0) != 0
               ? "No setting that was tried meets every request on this card.\n"
               : "No setting that was tried needs less than the recorded one.\n";
  }
  return heading("Least") + ": " + std::string(framework_with_blocks().settings_variable) + "=" +
         *best->options + "\n";
}

// A sentence about refused requests: the recording does not show what the run would have requested
// after them.
StyledText refusal_text(const WhatIf& device) {
  const std::uint64_t refused = device.rows.front().raised.value_or(0);
  if (refused == 0) return {};
  return paragraph("",
                   "The recorded run was refused " + format_count(refused) +
                       (refused == 1 ? " request" : " requests") +
                       ". Where it says `yes` these are met; what the job would have asked for "
                       "then is not known, nor whether it would have finished.",
                   2);
}

std::string ideal_text(const WhatIf& device) {
  std::string text = "Ideal: " + size_text(device.ideal.live_peak_bytes) + " are live at once; ";
  if (!device.ideal.packed_bytes) return text + "too many blocks to pack them.\n";
  return text + "a packing by lifetimes needs " + size_text(*device.ideal.packed_bytes) + ".\n";
}

std::string cause_words(const std::string& cause) {
  static const std::map<std::string, std::string> kWords = {
      {"rounding", "blocks larger than what was asked for"},
      {"too_small_pieces", "free pieces too small for the request"},
      {"oversize_blocks", "large blocks that max_split_size_mb keeps whole"},
      {"other_pool", "cached for the other size of requests"},
      {"other_streams", "cached for other streams and pools"},
      {"rest_of_new_segment", "the rest of the newest segment"}};
  const auto found = kWords.find(cause);
  return found == kWords.end() ? cause : found->second;
}

// The lines with most unusable bytes, over all causes.
std::set<const WhatIfLine*> lines_to_show(const WhatIf& device) {
  std::vector<const WhatIfLine*> lines;
  for (const auto& row : device.unusable_at_peak) {
    if (!row.lines) continue;
    for (const WhatIfLine& line : *row.lines) {
      const bool is_rest = &line == &row.lines->back();
      if (!is_rest && line.bytes != 0) lines.push_back(&line);
    }
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), &WhatIfLine::bytes);
  lines.resize(std::min(lines.size(), kMostLines));
  return {lines.begin(), lines.end()};
}

std::string unusable_text(const WhatIf& device) {
  const std::set<const WhatIfLine*> shown = lines_to_show(device);
  std::string text;
  for (const auto& row : device.unusable_at_peak) {
    if (row.bytes == 0) continue;
    text += format_text("  {:>10}  {}\n", size_text(row.bytes), cause_words(row.cause));
    if (!row.lines) continue;
    for (const WhatIfLine& line : *row.lines) {
      if (!shown.contains(&line)) continue;
      text += format_text("              {:>10}  {}\n", size_text(line.bytes),
                          short_site(analyzer::name_holder(line.origin), kPlaceWidth));
    }
  }
  if (text.empty()) return text;
  return "Reserved and of no use at the recorded peak" +
         std::string(shown.empty() ? "" : ", with the lines of the blocks there") + ":\n" + text;
}

// The bytes that the framework had requested from the driver at its peak.
std::uint64_t driver_bytes_at_peak(const FrameworkInfo& framework, const Report& report,
                                   const WhatIf& device) {
  std::uint64_t bytes = 0;
  for (const Peak& peak : report.peak) {
    const bool is_there = peak.process == device.process && peak.device == device.device &&
                          (peak.level == Level::kDriver || peak.level == Level::kPool);
    if (!is_there) continue;
    for (const Holder& holder : peak.holders) {
      if (holder.origin.owner == framework.owner) bytes += holder.bytes;
    }
  }
  return bytes;
}

// The framework that preallocated the memory, if the replayed allocator has next to none besides;
// else nullptr.
const FrameworkInfo* preallocating_framework(const Report& report, const WhatIf& device) {
  constexpr std::uint64_t kTrifle = 100;  // one part in this many is a trifle
  std::uint64_t replayed = 0;
  for (const Peak& peak : report.peak) {
    const bool is_there = peak.process == device.process && peak.device == device.device;
    if (is_there && peak.level == Level::kFramework) replayed += peak.bytes;
  }
  for (const FrameworkInfo& framework : analyzer::frameworks()) {
    const bool preallocates = !framework.preallocation.allocator.empty();
    if (preallocates && replayed < driver_bytes_at_peak(framework, report, device) / kTrifle)
      return &framework;
  }
  return nullptr;
}

StyledText preallocation_text(const FrameworkInfo& framework, const Report& report,
                              const WhatIf& device) {
  std::string text = format_text(
      "{} has {} here, which {}'s allocator deals out: settings of {}'s allocator do not apply to "
      "it, and nothing was replayed.",
      framework.name, size_text(driver_bytes_at_peak(framework, report, device)),
      framework.preallocation.allocator, framework_name());
  for (const Usage& usage : report.usage) {
    const bool is_there = usage.process == device.process && usage.device == device.device;
    if (!is_there || !usage.opaque_pool) continue;
    text += " The trace does not show what lies in " + usage.opaque_pool->name +
            "; record again with " + usage.opaque_pool->setting + " to see it.";
  }
  return paragraph("", text, 2);
}

std::string device_title(const WhatIf& device) {
  return device.process + " on " + device.device.value_or("an unknown device");
}

StyledText device_text(const Report& report, const WhatIf& device) {
  if (const FrameworkInfo* const framework = preallocating_framework(report, device)) {
    return format_text("{}'s allocator in {}\n", framework->preallocation.allocator,
                       device_title(device)) +
           preallocation_text(*framework, report, device);
  }
  StyledText text = (is_without_framework(device) ? "The driver's allocations in "
                                                  : framework_name() + "'s allocator in ") +
                    device_title(device) + "\n" + paragraph("", proof_text(device), 2) + "\n" +
                    format_text("{:<{}}", "setting", kSettingWidth) +
                    table_line("reserved", "change", "try", "calls", "here", "card", "basis") +
                    settings_text(device);
  return text + setting_notes(device) + "\n" + advice_text(device) + refusal_text(device) +
         ideal_text(device) + unusable_text(device);
}

}  // namespace

std::string short_site(const std::string& name, std::size_t width) {
  constexpr std::string_view kBeforePlace = " at ";
  const std::size_t place = name.find(kBeforePlace);
  const std::string site =
      place == std::string::npos ? name : name.substr(place + kBeforePlace.size());
  return cut(site, width);
}

std::string card_text(std::uint64_t capacity_bytes) {
  return capacity_bytes % kBytesPerGb == 0 ? std::to_string(capacity_bytes / kBytesPerGb) + " GB"
                                           : size_text(capacity_bytes);
}

StyledText what_if_text(const Report& report) {
  StyledText text;
  bool has_table = false;
  for (const WhatIf& device : *report.what_if) {
    if (device.rows.empty()) continue;
    text += (text.letters().empty() ? "" : "\n") + device_text(report, device);
    has_table = has_table || preallocating_framework(report, device) == nullptr;
  }
  if (!has_table) return text;
  return text + "\nreserved: the most that " + framework_name() +
         " takes from the driver; change: against the\n"
         "recorded settings; try: times that its cache was flushed for a request; calls:\n"
         "segments taken and given back; here: every request is met on the recorded card;\n"
         "card: the smallest from which on all are, 1 GB = 10^9 bytes. Programs that\n"
         "react to free memory may run differently.\n";
}

}  // namespace gpumemtrace::tools
