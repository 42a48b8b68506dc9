// SPDX-License-Identifier: Apache-2.0
#include "tools/live/live_text.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "analyzer/base/json.hpp"
#include "analyzer/base/words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Json;

constexpr std::size_t kMostLiveRows = 8;
constexpr std::size_t kMostHolders = 6;
constexpr const char* kPausedLoss = "paused";  // a row of losses[]

std::string cut(std::string line, std::size_t width) {
  constexpr std::string_view kRest = "...";
  if (line.size() <= width) return line;
  return line.substr(0, width - kRest.size()) + std::string(kRest);
}

std::string size_or_dash(const std::optional<std::uint64_t>& bytes) {
  return bytes ? size_text(*bytes) : "-";
}

// A column of the table. If lines are narrow, columns are left out, the largest `goes_at` first.
struct LiveColumn {
  std::string_view title;
  int width;
  int goes_at;
  std::string (*text)(const LiveRow& row);
};
constexpr auto kLiveColumns = std::to_array<LiveColumn>({
    {"rank", 4, 4, [](const LiveRow& row) { return row.rank ? std::to_string(*row.rank) : "-"; }},
    {"process", 8, 5, [](const LiveRow& row) { return std::to_string(row.pid); }},
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

// Those that lines of the width have room for, from the left to the right.
std::vector<LiveColumn> live_columns_for(std::size_t width) {
  std::vector<LiveColumn> columns(kLiveColumns.begin(), kLiveColumns.end());
  const auto needed = [&] {
    std::size_t sum = columns.size() - 1;
    for (const LiveColumn& column : columns) sum += static_cast<std::size_t>(column.width);
    return sum;
  };
  while (needed() > width) {
    const auto least = std::ranges::max_element(columns, {}, &LiveColumn::goes_at);
    if (least->goes_at == 0) break;
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

void add_holders(const std::string& title, const std::vector<NamedBytes>& holders,
                 std::uint64_t whole, std::vector<std::string>& lines) {
  if (holders.empty() || whole == 0) return;
  lines.push_back(title);
  std::uint64_t rest = whole;
  std::size_t shown = 0;
  for (const NamedBytes& holder : holders) {
    if (shown++ == kMostHolders) break;
    rest -= std::min(rest, holder.bytes);
    lines.push_back(format_text("{:>11} {:>3} %  {}", size_text(holder.bytes),
                                holder.bytes * 100 / whole, holder.name));
  }
  if (rest != 0) {
    lines.push_back(format_text("{:>11} {:>3} %  all others", size_text(rest), rest * 100 / whole));
  }
}

// The sums over all processes, each of which may have several rows.
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

// ", paused 2 times": asked for, so that nothing is lost by it.
std::string pauses_text(const LiveState& state) {
  std::uint64_t pauses = 0;
  for (const LiveRow& row : state.rows) {
    const auto found = row.losses.find(kPausedLoss);
    if (found != row.losses.end()) pauses = std::max(pauses, found->second);
  }
  return pauses == 0 ? std::string() : ", paused " + count_of(pauses, "time", "times");
}

// "dropped blocks 12, unknown frees 1"
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
                     state.is_running ? "recording" : "ended", pauses_text(state),
                     lost.empty() ? "no event lost" : "events lost (" + lost + ")",
                     state.name.empty() ? "unknown program" : state.name);
}

std::vector<NamedBytes> categories_of(const LiveRow& row) {
  std::vector<NamedBytes> holders = largest_first(row.categories);
  for (NamedBytes& holder : holders) holder.name = analyzer::in_words(holder.name);
  return holders;
}

Json json_of(const std::map<std::string, std::uint64_t>& numbers) {
  Json object = Json::object();
  for (const auto& [name, number] : numbers) object[name] = number;
  return object;
}

}  // namespace

std::vector<std::string> live_lines(const LiveState& state, std::size_t width, std::size_t height) {
  std::vector<std::string> lines = {state_text(state)};
  if (state.rows.empty()) {
    lines.emplace_back("Nothing was allocated on a device yet.");
  } else {
    const std::vector<LiveColumn> columns = live_columns_for(width);
    lines.push_back(
        live_table_line(columns, [](const LiveColumn& column) { return column.title; }));
    for (std::size_t i = 0; i < std::min(kMostLiveRows, state.rows.size()); ++i) {
      lines.push_back(live_table_line(
          columns, [&](const LiveColumn& column) { return column.text(state.rows[i]); }));
    }
    if (state.rows.size() > kMostLiveRows) {
      lines.push_back(format_text("and {} that hold less",
                                  count_of(state.rows.size() - kMostLiveRows, "row", "rows")));
    }
    for (const std::string& sentence : state.peaks) lines.push_back(sentence);
    const LiveRow& first = state.rows.front();
    const std::string where =
        format_text(" (process {}, {})", first.pid, first.device.value_or("-"));
    add_holders("Categories" + where, categories_of(first), first.live_bytes, lines);
    add_holders("Lines" + where, state.lines, first.live_bytes, lines);
    add_holders("Layers" + where, state.layers, first.live_bytes, lines);
  }
  const std::string remarks = losses_text(sum_losses(state, false));
  if (!remarks.empty()) lines.push_back("Also counted: " + remarks);
  if (lines.size() > height) lines.resize(height);
  for (std::string& line : lines) line = cut(std::move(line), width);
  return lines;
}

std::string live_json(const LiveState& state) {
  std::string text;
  for (const LiveRow& row : state.rows) {
    const Json object = {
        {"time_ns", row.time_ns},
        {"pid", row.pid},
        {"rank", json_or_null(row.rank)},
        {"device", json_or_null(row.device)},
        {"step", json_or_null(row.step)},
        {"reserved_bytes", json_or_null(row.reserved_bytes)},
        {"live_bytes", row.live_bytes},
        {"categories", row.has_framework ? json_of(row.categories) : Json(nullptr)},
        {"job_peak_bytes", json_or_null(row.job_peak_bytes)},
        {"card_peak_bytes", json_or_null(row.card_peak_bytes)},
        {"growth_bytes_per_step", json_or_null(row.growth_bytes_per_step)},
        {"full_in_ns", json_or_null(row.full_in_ns)},
        {"losses", json_of(row.losses)},
        {"exact", row.is_exact}};
    text += object.dump() + '\n';
  }
  return text;
}

}  // namespace gpumemtrace::tools
