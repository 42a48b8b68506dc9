// SPDX-License-Identifier: Apache-2.0
#include "tools/live/live_text.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "analyzer/base/row_text.hpp"
#include "analyzer/base/words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostLiveRows = 8;
constexpr std::size_t kMostLiveHolders = 6;
constexpr std::size_t kBarLetters = 12;
// Lines that are narrower than this have no bars.
constexpr std::size_t kLeastWidthOfBars = 60;
constexpr std::size_t kMostChartLines = 6;
constexpr std::size_t kLeastChartLines = 3;
constexpr std::size_t kMostChartColumns = 120;
constexpr const char* kPausedLoss = "paused";  // the name of a row of losses[]

// The number of `count` letters that show the share part/whole; all letters if `part` is larger.
std::size_t letters_for_share(std::size_t count, std::uint64_t part, std::uint64_t whole) {
  const double share = std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  return static_cast<std::size_t>(share * static_cast<double>(count));
}

std::string size_or_dash(const std::optional<std::uint64_t>& bytes) {
  return bytes ? size_text(*bytes) : "-";
}

// The PID of a process, or its id in the report if the PID is not known.
std::string name_of_process(const LiveRow& row) {
  return row.pid ? std::to_string(*row.pid) : row.process;
}

// A column of the table of processes. If a line is too narrow, columns are left out, those with the
// largest `drop_order` first; those with 0 always stay.
struct LiveColumn {
  std::string_view title;
  int width;
  int drop_order;
  std::string (*text)(const LiveRow& row);
};
constexpr auto kLiveColumns = std::to_array<LiveColumn>({
    {"rank", 4, 4, [](const LiveRow& row) { return row.rank ? std::to_string(*row.rank) : "-"; }},
    {"process", 8, 5, [](const LiveRow& row) { return name_of_process(row); }},
    {"device", 6, 3, [](const LiveRow& row) { return row.device.value_or("-"); }},
    {"step", 6, 2, [](const LiveRow& row) { return row.step ? std::to_string(*row.step) : "-"; }},
    {"in use", 10, 0, [](const LiveRow& row) { return size_text(row.live_bytes); }},
    {"reserved", 10, 6, [](const LiveRow& row) { return size_or_dash(row.reserved_bytes); }},
    {"of", 10, 7, [](const LiveRow& row) { return size_or_dash(row.capacity_bytes); }},
    {"a step", 10, 1,
     [](const LiveRow& row) {
       if (!row.growth_bytes_per_step) return std::string("-");
       const double bytes = std::max(0.0, *row.growth_bytes_per_step);
       return size_text(static_cast<std::uint64_t>(bytes));
     }},
    {"full in", 8, 0,
     [](const LiveRow& row) { return row.full_in_ns ? duration_text(*row.full_in_ns) : "-"; }},
});

// The columns that fit into lines of the width, from left to right.
std::vector<LiveColumn> live_columns_for(std::size_t width) {
  std::vector<LiveColumn> columns(kLiveColumns.begin(), kLiveColumns.end());
  const auto needed = [&] {
    std::size_t sum = columns.size() - 1;
    for (const LiveColumn& column : columns) sum += static_cast<std::size_t>(column.width);
    return sum;
  };
  while (needed() > width) {
    const auto least = std::ranges::max_element(columns, {}, &LiveColumn::drop_order);
    if (least->drop_order == 0) break;
    columns.erase(least);
  }
  return columns;
}

template <class TextOf>
std::string live_table_line(const std::vector<LiveColumn>& columns, const TextOf& text_of) {
  std::string line;
  for (const LiveColumn& column : columns) {
    line += format_text("{}{:>{}}", line.empty() ? "" : " ", text_of(column), column.width);
  }
  return line;
}

// Adds the largest holders under the title, with their share of `whole`, and the sum of the others.
void add_holder_lines(const StyledText& title, const std::vector<NamedBytes>& holders,
                      std::uint64_t whole, std::size_t width, Lines& lines) {
  if (holders.empty() || whole == 0) return;
  lines.push_back(title);
  const auto add = [&](const std::string& name, std::uint64_t bytes) {
    std::string bar;
    if (width >= kLeastWidthOfBars) {
      const std::string filled(letters_for_share(kBarLetters, bytes, whole), '#');
      bar = format_text("{:<{}}  ", filled, kBarLetters);
    }
    lines.push_back(
        format_text("{:>11} {:>3} %  {}{}", size_text(bytes), bytes * 100 / whole, bar, name));
  };
  std::uint64_t rest = whole;
  std::size_t shown = 0;
  for (const NamedBytes& holder : holders) {
    if (shown++ == kMostLiveHolders) break;
    rest -= std::min(rest, holder.bytes);
    add(holder.name, holder.bytes);
  }
  if (rest != 0) add("all others", rest);
}

// Divides the time of `history` into `count` equal parts; returns the most bytes in use in each.
std::vector<std::uint64_t> most_bytes_by_column(const std::vector<LiveStretch>& history,
                                                std::size_t count) {
  const std::uint64_t start_ns = history.front().start_ns;
  const std::uint64_t length_ns = std::max(history.back().end_ns, start_ns + 1) - start_ns;
  const auto column_at = [&](std::uint64_t time_ns) {
    return std::min(count - 1,
                    letters_for_share(count, std::max(time_ns, start_ns) - start_ns, length_ns));
  };
  std::vector<std::uint64_t> columns(count);
  for (const LiveStretch& stretch : history) {
    // A stretch does not contain its end_ns, nor reach into the part that begins then.
    const std::uint64_t last_ns = std::max(stretch.start_ns + 1, stretch.end_ns) - 1;
    for (std::size_t i = column_at(stretch.start_ns); i <= column_at(last_ns); ++i) {
      columns[i] = std::max(columns[i], stretch.bytes);
    }
  }
  return columns;
}

// A chart of the bytes in use over time, `height` lines high, with a title above.
std::vector<std::string> chart_of(const LiveRow& row, std::size_t width, std::size_t height) {
  constexpr std::size_t kAxisLetters = 13;
  if (row.history.empty() || width < 2 * kAxisLetters) return {};
  const std::vector<std::uint64_t> columns =
      most_bytes_by_column(row.history, std::min(kMostChartColumns, width - kAxisLetters));
  const std::uint64_t most = std::ranges::max(columns);
  if (most == 0) return {};
  std::vector<std::string> lines = {format_text(
      "In use from {} to {} (process {}, {})", duration_text(row.history.front().start_ns),
      duration_text(row.history.back().end_ns), name_of_process(row), row.device.value_or("-"))};
  for (std::size_t level = height; level-- > 0;) {
    const std::string label = level + 1 == height ? size_text(most) : std::string();
    std::string line = format_text("{:>11} |", label);
    for (const std::uint64_t bytes : columns) {
      // A column with any bytes has at least one letter, however few the bytes are.
      const bool is_filled =
          bytes != 0 && std::max<std::size_t>(1, letters_for_share(height, bytes, most)) > level;
      line += is_filled ? '#' : ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

// Sums the losses of all processes; a process can have several rows, but counts once.
std::map<std::string, std::uint64_t> sum_losses(const LiveState& state, bool of_missing_events) {
  std::map<std::string, std::uint64_t> sums;
  std::set<std::string> processes;
  for (const LiveRow& row : state.rows) {
    if (!processes.insert(row.process).second) continue;
    for (const auto& [name, count] : row.losses) {
      if (name == kPausedLoss) continue;
      const bool is_missing = std::ranges::find(row.missing, name) != row.missing.end();
      if (is_missing == of_missing_events) sums[name] += count;
    }
  }
  return sums;
}

// A text such as ", paused 2 times". The user asked for pauses, so that they are no losses.
std::string pauses_text(const LiveState& state) {
  std::uint64_t pauses = 0;
  for (const LiveRow& row : state.rows) {
    const auto found = row.losses.find(kPausedLoss);
    if (found != row.losses.end()) pauses = std::max(pauses, found->second);
  }
  return pauses == 0 ? std::string() : ", paused " + count_of(pauses, "time", "times");
}

// Losses as a text: "dropped blocks 12, unknown frees 1".
std::string losses_text(const std::map<std::string, std::uint64_t>& losses) {
  std::string text;
  for (const auto& [name, count] : losses) {
    text += format_text("{}{} {}", text.empty() ? "" : ", ", analyzer::in_words(name), count);
  }
  return text;
}

std::string state_text(const LiveState& state) {
  std::uint64_t time_ns = 0;
  for (const LiveRow& row : state.rows) time_ns = std::max(time_ns, row.time_ns);
  const std::string lost = losses_text(sum_losses(state, true));
  return format_text("{}, {}{}, {}: {}", duration_text(time_ns),
                     state.is_running    ? "recording"
                     : state.is_snapshot ? "snapshot"
                                         : "ended",
                     pauses_text(state),
                     lost.empty() ? "no event lost" : "events lost (" + lost + ")",
                     state.name.empty() ? "unknown program" : state.name);
}

std::vector<NamedBytes> categories_of(const LiveRow& row) {
  std::vector<NamedBytes> holders = largest_first(row.categories);
  for (NamedBytes& holder : holders) holder.name = analyzer::in_words(holder.name);
  return holders;
}

// Adds the table with as many rows as fit; if there are several rows, a mark shows the selected
// one.
void add_table(const LiveState& state, std::size_t width, std::size_t chosen_row, Lines& lines) {
  const bool has_choice = state.rows.size() > 1;
  const std::vector<LiveColumn> columns =
      live_columns_for(has_choice ? std::max<std::size_t>(width, 2) - 2 : width);
  const auto add = [&](bool is_chosen, const auto& text_of) {
    const char* const mark = is_chosen ? "> " : "  ";
    lines.push_back((has_choice ? mark : "") + live_table_line(columns, text_of));
  };
  add(false, [](const LiveColumn& column) { return column.title; });
  const std::size_t first = chosen_row < kMostLiveRows ? 0 : chosen_row - kMostLiveRows + 1;
  const std::size_t end = std::min(first + kMostLiveRows, state.rows.size());
  for (std::size_t i = first; i < end; ++i) {
    add(i == chosen_row, [&](const LiveColumn& column) { return column.text(state.rows[i]); });
  }
  if (state.rows.size() > kMostLiveRows) {
    lines.push_back(
        format_text("rows {} to {} of {}, the fullest first", first + 1, end, state.rows.size()));
  }
}

}  // namespace

Lines live_lines(const LiveState& state, std::size_t width, std::size_t height,
                 std::size_t chosen_row) {
  Lines lines = {state_text(state)};
  std::size_t chart_at = lines.size();
  if (state.rows.empty()) {
    lines.emplace_back("Nothing was allocated on a device yet.");
  } else {
    const LiveRow& chosen = state.rows.at(chosen_row);
    add_table(state, width, chosen_row, lines);
    lines.insert(lines.end(), state.peaks.begin(), state.peaks.end());
    chart_at = lines.size();
    const std::string where =
        format_text(" (process {}, {})", name_of_process(chosen), chosen.device.value_or("-"));
    add_holder_lines(heading("Categories") + where, categories_of(chosen), chosen.live_bytes, width,
                     lines);
    add_holder_lines(heading("Lines") + where, chosen.lines, chosen.live_bytes, width, lines);
    add_holder_lines(heading("Layers") + where, chosen.layers, chosen.live_bytes, width, lines);
  }
  const std::string remarks = losses_text(sum_losses(state, false));
  if (!remarks.empty()) lines.emplace_back("Also counted: " + remarks);
  const std::size_t left = height - std::min(height, lines.size() + 1);
  if (!state.rows.empty() && left >= kLeastChartLines) {
    const auto chart = chart_of(state.rows.at(chosen_row), width, std::min(left, kMostChartLines));
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(chart_at), chart.begin(), chart.end());
  }
  if (lines.size() > height) lines.resize(height);
  for (StyledText& line : lines) line.cut(width);
  return lines;
}

std::string live_json(const LiveState& state) {
  std::string text;
  for (const LiveRow& row : state.rows) text += analyzer::json_text(row) + '\n';
  return text;
}

}  // namespace gpumemtrace::tools
