// SPDX-License-Identifier: Apache-2.0
#include "analyzer/join/partial_options.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace gpumemtrace::analyzer {
namespace {

[[nodiscard]] bool has_owners(const std::vector<rows::CardOwnersBytes>& rows,
                              const rows::CardHistory& history) {
  return std::ranges::all_of(
      rows, [&](const rows::CardOwnersBytes& row) { return row.owner < history.owners.size(); });
}

// True if the history has a row for each event that needs one, and an owner for each row that names
// one.
[[nodiscard]] bool is_sound(const rows::CardHistory& history) {
  using rows::CardEventKind;
  std::array<std::size_t, names(CardEventKind{}).size()> events{};
  for (const rows::CardEvent& event : history.events)
    ++events[static_cast<std::size_t>(event.what)];
  const auto fits = [&](CardEventKind what, std::size_t rows) {
    return events[static_cast<std::size_t>(what)] <= rows;
  };
  if (!fits(CardEventKind::kChange, history.changes.size()) ||
      !fits(CardEventKind::kSample, history.samples.size()) ||
      !fits(CardEventKind::kListedProcess, history.listed_processes.size()) ||
      !fits(CardEventKind::kCountedLate, history.counted_late.size()) ||
      !fits(CardEventKind::kPrefix, history.prefix ? 1 : 0) ||
      !fits(CardEventKind::kSummary, history.summary ? 1 : 0) ||
      !fits(CardEventKind::kRestoredPeak, history.restored_peaks.size())) {
    return false;
  }
  const bool changes_fit = std::ranges::all_of(
      history.owners_changes,
      [&](const rows::CardOwnersChange& row) { return row.owner < history.owners.size(); });
  const bool prefix_fits =
      !history.prefix ||
      std::ranges::all_of(history.prefix->points, [&](const rows::CardPrefixPoint& point) {
        return has_owners(point.owners, history);
      });
  return changes_fit && prefix_fits &&
         (!history.summary || has_owners(history.summary->highest.owners, history));
}

[[nodiscard]] bool is_sound(const rows::LargestOfAccount& account) {
  const std::size_t blocks = account.blocks.size();
  return account.most_lasting <= blocks &&
         std::ranges::all_of(account.at_peak, [&](std::uint64_t index) { return index < blocks; });
}

}  // namespace

rows::PartialOptions options_row(const Thresholds& thresholds,
                                 const std::optional<std::size_t>& timeline_points,
                                 const std::vector<std::filesystem::path>& owner_files,
                                 const std::string& groups) {
  rows::PartialOptions row;
  for (std::size_t i = 0; i < kThresholds.size(); ++i) {
    row.thresholds[std::string(kThresholds[i].name)] = thresholds[static_cast<Threshold>(i)];
  }
  if (timeline_points) row.timeline_points = *timeline_points;
  row.groups = groups;
  for (const std::filesystem::path& path : owner_files) {
    std::ifstream file(path);
    row.owners.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return row;
}

JoinOptions join_options(const rows::PartialOptions& options) {
  JoinOptions join;
  for (const auto& [name, value] : options.thresholds) {
    const auto info = std::ranges::find(kThresholds, name, &ThresholdInfo::name);
    if (info == kThresholds.end()) throw InputError("There is no threshold " + name + ".");
    join.thresholds.set(static_cast<std::size_t>(info - kThresholds.begin()), value);
  }
  join.timeline_points = options.timeline_points;
  join.groups = options.groups;
  return join;
}

void require_alike(const std::vector<rows::Partial>& partials) {
  for (const rows::Partial& partial : partials) {
    if (partial.tool.version != GPUMEMTRACE_VERSION) {
      throw InputError(partial.source + " was made by gpumemtrace " + partial.tool.version +
                       ", and this is " GPUMEMTRACE_VERSION
                       ": make it again from its traces, or merge with that version.");
    }
    if (partial.options == partials.front().options) continue;
    throw InputError(partial.source + " was made with other options than " +
                     partials.front().source +
                     ": give both the same --threshold, --timeline-points, --groups and "
                     "--owners.");
  }
}

void require_sound(const rows::Partial& partial) {
  const auto sound = [](const auto& row) { return is_sound(row); };
  if (partial.processes.size() == partial.report.processes.size() &&
      std::ranges::all_of(partial.card_histories, sound) &&
      std::ranges::all_of(partial.largest_blocks, sound)) {
    return;
  }
  throw InputError(partial.source + " is damaged: a row names another that is not there.");
}

}  // namespace gpumemtrace::analyzer
