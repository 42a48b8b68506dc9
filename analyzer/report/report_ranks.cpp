// SPDX-License-Identifier: Apache-2.0
// The processes of a job side by side: ranks[].
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A rank is measured at the first of these levels that it used: the memory that it works with, not
// the memory that this is made of.
constexpr std::array kLevels = {Level::kFramework, Level::kDriver, Level::kPool};

template <class Row>
bool is_at(const Row& row, const rows::Rank& rank) {
  return row.process == rank.process && row.device == rank.device;
}

const rows::Peak* peak_of(const rows::Report& sections, const rows::Rank& rank) {
  for (const Level level : kLevels) {
    for (const rows::Peak& peak : sections.peak) {
      if (is_at(peak, rank) && peak.level == level) return &peak;
    }
  }
  return nullptr;
}

rows::OptionalNumber reserved_peak_of(const rows::Report& sections, const rows::Rank& rank,
                                      Level level) {
  for (const rows::Usage& usage : sections.usage) {
    if (is_at(usage, rank) && usage.level == level && usage.reserved) {
      return usage.reserved->peak_bytes;
    }
  }
  return std::nullopt;
}

std::uint64_t leaked_bytes_of(const rows::Report& sections, const rows::Rank& rank) {
  std::uint64_t bytes = 0;
  for (const rows::ExitLeak& leak : sections.leaks.exit) {
    // A leak inside memory of another row counts there.
    const bool counts = leak.leak_class == rows::LeakClass::kLost && !leak.inside;
    if (counts && is_at(leak, rank)) bytes += leak.bytes;
  }
  return bytes;
}

std::optional<double> growth_of(const rows::Report& sections, const rows::Rank& rank, Level level) {
  std::optional<double> bytes_per_step;
  for (const rows::Growth& growth : sections.leaks.growth) {
    if (!is_at(growth, rank) || growth.level != level || !growth.bytes_per_step) continue;
    bytes_per_step = bytes_per_step.value_or(0) + *growth.bytes_per_step;
  }
  return bytes_per_step;
}

// If their number is even, the lower one of the two in the middle.
std::uint64_t median_peak(const std::vector<rows::Rank>& ranks) {
  std::vector<std::uint64_t> values;
  for (const rows::Rank& rank : ranks) values.push_back(rank.peak_bytes);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<rows::Rank> report_ranks(const rows::Report& sections) {
  std::vector<rows::Rank> list;
  std::map<std::string, const rows::Process*> processes;
  for (const rows::Process& process : sections.processes) processes[process.id] = &process;
  std::set<std::pair<std::string, std::string>> known;
  for (const rows::Device& device : sections.devices) {
    for (const rows::SeenAs& seen : device.seen_as) {
      // A process may see one device under several ordinals.
      if (!known.insert({device.id, seen.process}).second) continue;
      const rows::Process& process = *processes.at(seen.process);
      rows::Rank rank;
      rank.rank = process.rank;
      rank.host = process.host;
      rank.process = process.id;
      rank.device = device.id;
      const rows::Peak* const peak = peak_of(sections, rank);
      if (peak == nullptr) continue;
      rank.peak_bytes = peak->bytes;
      rank.reserved_peak_bytes = reserved_peak_of(sections, rank, peak->level);
      rank.leaked_bytes = leaked_bytes_of(sections, rank);
      rank.growth_bytes_per_step = growth_of(sections, rank, peak->level);
      list.push_back(std::move(rank));
    }
  }
  if (list.size() > 1) {
    const std::uint64_t median = median_peak(list);
    for (rows::Rank& rank : list) {
      rank.deviation = static_cast<std::int64_t>(rank.peak_bytes - median);
    }
  }
  sort_rows(list, &rows::Rank::peak_bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
