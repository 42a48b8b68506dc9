// SPDX-License-Identifier: Apache-2.0
#include "tools/diff/difference.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/words.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/check/baseline.hpp"
#include "tools/diff/common_names.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

// A number of a job that can be compared with that of another job.
struct ComparedBytes {
  std::uint64_t bytes = 0;
  std::string title{};           // for people; empty: the key is shown
  std::string group{};           // heading of the listing that has the number; may be empty
  std::uint64_t most_bytes = 0;  // the most bytes of one call site, whose line is in `title`
};
using ComparedBytesByName = std::map<std::string, ComparedBytes>;
using Collect = ComparedBytesByName (*)(const rows::Report& report);

std::int64_t byte_change(const DifferenceRow& row) {
  return static_cast<std::int64_t>(row.new_bytes) - static_cast<std::int64_t>(row.base_bytes);
}

DifferenceSection difference_section(std::string name, std::string title,
                                     const ComparedBytesByName& base,
                                     const ComparedBytesByName& next) {
  // Titles of the new job come first: they show the code as it is now.
  ComparedBytesByName names = next;
  names.insert(base.begin(), base.end());
  const auto in = [](const ComparedBytesByName& numbers, const std::string& key) {
    const auto found = numbers.find(key);
    return found == numbers.end() ? 0 : found->second.bytes;
  };
  DifferenceSection section{std::move(name), std::move(title), {}};
  for (const auto& [key, number] : names) {
    section.rows.push_back({key, in(base, key), in(next, key), number.title, number.group});
  }
  std::ranges::stable_sort(section.rows, std::ranges::greater(), byte_change);
  return section;
}

// The title for an allocator layer ("level"), or for "physical".
std::string title_of_level(const std::string& level) {
  if (level == "framework") {
    return format_text("{} allocated", analyzer::framework_with_blocks().name);
  }
  constexpr std::pair<std::string_view, std::string_view> kTitles[] = {
      {"physical", "asked for by all processes of the job"},
      {"driver", "asked of the CUDA driver"},
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

// Adds the bytes of a call site to the number of its function and file. Only the title has a line,
// that of the largest site, because lines move when code above them changes.
void add_call_site(ComparedBytesByName& numbers, const std::string& prefix,
                   const rows::Origin& origin, std::uint64_t bytes, const std::string& group = {}) {
  rows::Origin without_line = origin;
  if (without_line.site) without_line.site->line.reset();
  ComparedBytes& number = numbers[prefix + analyzer::name_holder(without_line)];
  number.bytes += bytes;
  number.group = group;
  if (bytes < number.most_bytes) return;
  number.most_bytes = bytes;
  number.title = analyzer::name_holder(origin);
}

// Calls add(numbers, level, holder) for each holder (memory of one origin) of each peak. Levels
// must not be summed, because framework memory lies inside the driver's.
template <class Add>
ComparedBytesByName sum_over_holders(const rows::Report& report, Add&& add) {
  ComparedBytesByName numbers;
  for (const rows::Peak& peak : report.peak) {
    for (const rows::Holder& holder : peak.holders) {
      if (holder.bytes != 0) add(numbers, std::string(name_of(peak.level)), holder);
    }
  }
  return numbers;
}

void add_named(ComparedBytesByName& numbers, const std::string& level, const std::string& name,
               std::uint64_t bytes, const std::string& title) {
  ComparedBytes& number = numbers[level + ": " + name];
  number.bytes += bytes;
  number.title = title;
  number.group = title_of_level(level);
}

ComparedBytesByName by_category(const rows::Report& report) {
  return sum_over_holders(report, [](ComparedBytesByName& numbers, const std::string& level,
                                     const rows::Holder& holder) {
    const std::string category(name_of(holder.category));
    add_named(numbers, level, category.empty() ? "not told" : category, holder.bytes,
              category.empty() ? "unknown use" : analyzer::in_words(category));
  });
}

ComparedBytesByName by_owner(const rows::Report& report) {
  return sum_over_holders(report, [](ComparedBytesByName& numbers, const std::string& level,
                                     const rows::Holder& holder) {
    const std::string owner = holder.origin.owner.value_or("not known");
    add_named(numbers, level, owner, holder.bytes, owner);
  });
}

ComparedBytesByName by_call_site(const rows::Report& report) {
  return sum_over_holders(report, [](ComparedBytesByName& numbers, const std::string& level,
                                     const rows::Holder& holder) {
    add_call_site(numbers, level + ": ", holder.origin, holder.bytes, title_of_level(level));
  });
}

ComparedBytesByName leaked(const rows::Report& report) {
  ComparedBytesByName numbers;
  for (const rows::ExitLeak& row : report.leaks.exit) {
    if (row.leak_class != rows::LeakClass::kLost || row.inside) continue;
    add_call_site(numbers, {}, row.origin, row.bytes);
  }
  return numbers;
}

ComparedBytesByName transferred(const rows::Report& report) {
  ComparedBytesByName numbers;
  for (const rows::Copies& row : report.transfers.by_kind) {
    const std::string name =
        format_text("{}, {} to {}", name_of(row.direction), name_of(row.source_memory),
                    name_of(row.destination_memory));
    ComparedBytes& number = numbers[name];
    number.bytes += row.bytes;
    number.title = analyzer::in_words(name);
  }
  return numbers;
}

// Bytes copied by each line. Copies of a process that have no line are left out.
ComparedBytesByName copied_by_line(const rows::Report& report) {
  ComparedBytesByName numbers;
  for (const rows::CopySite& row : report.transfers.sites) {
    if (!row.direction) continue;
    const std::string direction(name_of(*row.direction));
    add_call_site(numbers, direction + ": ", row.origin, row.bytes, analyzer::in_words(direction));
  }
  return numbers;
}

// Bytes in use at the peaks of cards, with names such as "job peak on d0".
ComparedBytesByName in_use(const rows::Report& report) {
  ComparedBytesByName numbers;
  for (const rows::CardPeak& row : report.card_peaks) {
    const std::string name = format_text("{} peak", name_of(row.of));
    numbers[row.device ? format_text("{} on {}", name, *row.device) : name].bytes = row.bytes;
  }
  return numbers;
}

ComparedBytesByName by_level(const rows::Report& report) {
  ComparedBytesByName numbers;
  for (const auto& [level, bytes] : peaks_of(report)) {
    numbers[level] = {bytes, title_of_level(level), {}, 0};
  }
  return numbers;
}

constexpr const char* kLeakSection = "leaks";
constexpr const char* kCardSection = "card_peaks";

struct SectionInfo {
  const char* name;
  const char* title;
  const char* title_of_many;  // title if a job has several processes
  Collect collect;
  bool is_limited;  // true: growth in its rows is a regression
};
constexpr SectionInfo kComparedSections[] = {
    {kCardSection, "In use at the peak", "In use at the peak", in_use, true},
    {"peak", "Peak by allocator layer", "Highest peak of one process by allocator layer", by_level,
     true},
    {"categories", "At the peak by category", "At the peaks of all processes by category",
     by_category, false},
    {"owners", "At the peak by owner", "At the peaks of all processes by owner", by_owner, false},
    {"places", "At the peak by line", "At the peaks of all processes by line", by_call_site, false},
    {kLeakSection, "Lost at exit", "Lost at exit", leaked, true},
    {"transfers", "Copied", "Copied", transferred, true},
    {"copy_sites", "Copied by line", "Copied by line", copied_by_line, false},
};
constexpr const char* kStepSection = "step";

// The bytes of a step, summed over all ranks.
ComparedBytesByName step_numbers(const rows::Report& report, std::uint64_t step) {
  ComparedBytesByName numbers = {{"peak_bytes", {0, "live at its peak", {}, 0}},
                                 {"live_bytes_at_end", {0, "live at its end", {}, 0}},
                                 {"transfers_bytes", {0, "copied in it", {}, 0}}};
  for (const rows::Step& row : find_step(report, step)) {
    numbers["peak_bytes"].bytes += row.peak_bytes;
    numbers["live_bytes_at_end"].bytes += row.live_bytes_at_end;
    numbers["transfers_bytes"].bytes += row.transfers_bytes;
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
  const bool is_of_many = base.processes.size() > 1 || next.processes.size() > 1;
  const bool has_card_peaks = !base.card_peaks.empty() && !next.card_peaks.empty();
  for (const SectionInfo& info : kComparedSections) {
    if (info.collect == in_use && !has_card_peaks) continue;  // an older report lacks card peaks
    sections.push_back(difference_section(info.name, is_of_many ? info.title_of_many : info.title,
                                          info.collect(named_base), info.collect(named_next)));
  }
  return sections;
}

std::vector<DifferenceSection> compare_steps(const rows::Report& base, std::uint64_t base_step,
                                             const rows::Report& next, std::uint64_t next_step) {
  return {difference_section(kStepSection, format_text("Step {} and step {}", base_step, next_step),
                             step_numbers(base, base_step), step_numbers(next, next_step))};
}

// Leaves out findings of severity info and findings whose fingerprint `other` has. Of findings with
// the same fingerprint only the first is returned.
std::vector<NamedFinding> findings_only_in(const rows::Report& one, const rows::Report& other) {
  std::set<std::string> seen_fingerprints;
  for (const rows::Finding& row : other.findings) seen_fingerprints.insert(row.fingerprint);
  std::vector<NamedFinding> findings;
  for (const rows::Finding& row : one.findings) {
    if (row.severity == analyzer::Severity::kInfo) continue;
    if (!seen_fingerprints.insert(row.fingerprint).second) continue;
    findings.push_back({std::string(name_of(row.rule)), row.fingerprint, row.title});
  }
  return findings;
}

std::vector<DifferenceRow> regressions_of(const std::vector<DifferenceSection>& sections,
                                          const RegressionLimit& limit) {
  std::vector<DifferenceRow> regressions;
  for (const DifferenceSection& section : sections) {
    const bool is_limited = section.name == kStepSection ||
                            std::any_of(std::begin(kComparedSections), std::end(kComparedSections),
                                        [&](const SectionInfo& info) {
                                          return info.is_limited && section.name == info.name;
                                        });
    for (const DifferenceRow& row : section.rows) {
      // The peak of the whole card is no regression: it includes memory that is not the job's.
      if (section.name == kCardSection && !row.name.starts_with("job")) continue;
      const std::uint64_t allowed =
          section.name == kLeakSection ? row.base_bytes : limit.allowed_bytes(row.base_bytes);
      if (!is_limited || row.new_bytes <= allowed) continue;
      const std::string title = row.title.empty() ? row.name : row.title;
      regressions.push_back({section.name + ", " + row.name,
                             row.base_bytes,
                             row.new_bytes,
                             format_text("{}, {}", section.title, title),
                             {}});
    }
  }
  return regressions;
}

}  // namespace gpumemtrace::tools
