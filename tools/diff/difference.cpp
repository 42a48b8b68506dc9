// SPDX-License-Identifier: Apache-2.0
#include "tools/diff/difference.hpp"

#include <algorithm>
#include <functional>

#include "tools/base/failure.hpp"
#include "tools/base/named_bytes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/baseline.hpp"
#include "tools/diff/common_names.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

using Collect = BytesByName (*)(const rows::Report& report);

std::int64_t change_of(const DifferenceRow& row) {
  return static_cast<std::int64_t>(row.new_bytes) - static_cast<std::int64_t>(row.base_bytes);
}

DifferenceSection compare(std::string name, std::string title, const BytesByName& base,
                          const BytesByName& next) {
  BytesByName names = base;
  names.insert(next.begin(), next.end());
  const auto in = [](const BytesByName& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? 0 : found->second;
  };
  DifferenceSection section{std::move(name), std::move(title), {}};
  for (const auto& [key, ignored] : names) {
    section.rows.push_back({key, in(base, key), in(next, key)});
  }
  std::ranges::stable_sort(section.rows, std::ranges::greater(), change_of);
  return section;
}

// A line moves when code above it changes, so it is no part of the name.
std::string call_site_of(rows::Origin origin) {
  if (origin.site) origin.site->line.reset();
  return name_holder(origin);
}

// Each level for itself: framework memory lies inside the driver's.
template <class Name>
BytesByName holders_by(const rows::Report& report, Name&& name) {
  BytesByName bytes;
  for (const rows::Peak& peak : report.peak) {
    const std::string level(name_of(peak.level));
    for (const rows::Holder& holder : peak.holders) {
      if (holder.bytes != 0) bytes[level + ": " + name(holder)] += holder.bytes;
    }
  }
  return bytes;
}

BytesByName by_category(const rows::Report& report) {
  return holders_by(report, [](const rows::Holder& holder) {
    const std::string_view category = name_of(holder.category);
    return std::string(category.empty() ? "not told" : category);
  });
}

BytesByName by_owner(const rows::Report& report) {
  return holders_by(
      report, [](const rows::Holder& holder) { return holder.origin.owner.value_or("not known"); });
}

BytesByName by_call_site(const rows::Report& report) {
  return holders_by(report, [](const rows::Holder& holder) { return call_site_of(holder.origin); });
}

BytesByName leaked(const rows::Report& report) {
  BytesByName bytes;
  for (const rows::ExitLeak& row : report.leaks.exit) {
    if (row.leak_class != rows::LeakClass::kLost || row.inside) continue;
    bytes[call_site_of(row.origin)] += row.bytes;
  }
  return bytes;
}

BytesByName transferred(const rows::Report& report) {
  BytesByName bytes;
  for (const rows::Copies& row : report.transfers.by_kind) {
    bytes[format_text("{}, {} to {}", name_of(row.direction), name_of(row.source_memory),
                      name_of(row.destination_memory))] += row.bytes;
  }
  return bytes;
}

// "job peak on d0".
BytesByName in_use(const rows::Report& report) {
  BytesByName bytes;
  for (const rows::CardPeak& row : report.card_peaks) {
    const std::string name = format_text("{} peak", name_of(row.of));
    bytes[row.device ? format_text("{} on {}", name, *row.device) : name] = row.bytes;
  }
  return bytes;
}

// The title of a level.
std::string title_of_level(const std::string& level) {
  constexpr std::pair<std::string_view, std::string_view> kTitles[] = {
      {"physical", "asked for by all processes of the job"},
      {"driver", "asked of the CUDA driver by one process"},
      {"framework", "PyTorch allocated"},
      {"pool", "allocated from the driver's memory pools"},
      {"managed", "managed memory"},
      {"host", "pinned host memory"},
      {"imported", "imported from other processes"},
  };
  for (const auto& [name, title] : kTitles) {
    if (name == level) return std::string(title);
  }
  return level;
}

constexpr const char* kLeakSection = "leaks";
constexpr const char* kCardSection = "card_peaks";
constexpr const char* kLevelSection = "peak";

struct SectionInfo {
  const char* name;
  const char* title;
  Collect collect;
  bool is_limited;  // its rows count as regressions
};
constexpr SectionInfo kSections[] = {
    {kCardSection, "In use at the peak", in_use, true},
    {kLevelSection, "Peak by allocator layer", peaks_of, true},
    {"categories", "At the peak by category", by_category, false},
    {"owners", "At the peak by owner", by_owner, false},
    {"places", "At the peak by call site", by_call_site, false},
    {kLeakSection, "Lost at exit", leaked, true},
    {"transfers", "Copied", transferred, true},
};
constexpr const char* kStepSection = "step";

// Sums over several ranks.
BytesByName step_numbers(const rows::Report& report, std::uint64_t step) {
  BytesByName numbers;
  for (const rows::Step& row : find_step(report, step)) {
    numbers["peak_bytes"] += row.peak_bytes;
    numbers["live_bytes_at_end"] += row.live_bytes_at_end;
    numbers["transfers_bytes"] += row.transfers_bytes;
  }
  return numbers;
}

}  // namespace

std::vector<DifferenceSection> compare_jobs(const rows::Report& base, const rows::Report& next) {
  CommonNames names;
  names.add(base);
  names.add(next);
  const rows::Report named_base = names.apply_to(base);
  const rows::Report named_next = names.apply_to(next);
  std::vector<DifferenceSection> sections;
  const bool has_card_peaks = !base.card_peaks.empty() && !next.card_peaks.empty();
  for (const SectionInfo& info : kSections) {
    if (info.collect == in_use && !has_card_peaks) continue;  // an older report
    sections.push_back(
        compare(info.name, info.title, info.collect(named_base), info.collect(named_next)));
    if (info.collect != peaks_of) continue;
    for (DifferenceRow& row : sections.back().rows) row.title = title_of_level(row.name);
  }
  return sections;
}

std::vector<DifferenceSection> compare_steps(const rows::Report& base, std::uint64_t base_step,
                                             const rows::Report& next, std::uint64_t next_step) {
  return {compare(kStepSection, format_text("Step {} and step {}", base_step, next_step),
                  step_numbers(base, base_step), step_numbers(next, next_step))};
}

std::vector<DifferenceRow> regressions_of(const std::vector<DifferenceSection>& sections,
                                          const RegressionLimit& limit) {
  std::vector<DifferenceRow> regressions;
  for (const DifferenceSection& section : sections) {
    const bool is_limited =
        section.name == kStepSection ||
        std::any_of(std::begin(kSections), std::end(kSections), [&](const SectionInfo& info) {
          return info.is_limited && section.name == info.name;
        });
    for (const DifferenceRow& row : section.rows) {
      // The job does not answer for the memory of others on the card.
      if (section.name == kCardSection && !row.name.starts_with("job")) continue;
      const std::uint64_t allowed =
          section.name == kLeakSection ? row.base_bytes : limit.allowed_bytes(row.base_bytes);
      if (!is_limited || row.new_bytes <= allowed) continue;
      const std::string title = row.title.empty() ? row.name : row.title;
      regressions.push_back({section.name + ", " + row.name, row.base_bytes, row.new_bytes,
                             format_text("{}, {}", section.title, title)});
    }
  }
  return regressions;
}

}  // namespace gpumemtrace::tools
