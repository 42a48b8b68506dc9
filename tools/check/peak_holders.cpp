// SPDX-License-Identifier: Apache-2.0
#include "tools/check/peak_holders.hpp"

#include <algorithm>
#include <functional>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/text/names.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;
using rows::CardPartKind;

// Sums what one call site held in several processes and at several lines.
class Holders {
 public:
  void add(const rows::Origin& origin, std::uint64_t bytes) {
    rows::Origin without_line = origin;
    if (without_line.site) without_line.site->line.reset();
    Sum& sum = sums_[analyzer::name_holder(without_line)];
    sum.bytes += bytes;
    if (bytes < sum.most_bytes) return;
    sum.most_bytes = bytes;
    sum.name = analyzer::name_holder(origin);
    sum.site = origin.site;
  }
  void add(const std::string& name, std::uint64_t bytes) {
    Sum& sum = sums_[name];
    sum.bytes += bytes;
    sum.name = name;
  }

  [[nodiscard]] std::vector<HeldBytes> largest_first() const {
    std::vector<HeldBytes> list;
    for (const auto& [call_site, sum] : sums_) {
      if (sum.bytes != 0) list.push_back({call_site, sum.name, sum.bytes, sum.site, {}});
    }
    std::ranges::stable_sort(list, std::ranges::greater(), &HeldBytes::bytes);
    return list;
  }

 private:
  struct Sum {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t most_bytes = 0;  // the most that one line held
    std::optional<rows::Site> site;
  };

  std::map<std::string, Sum> sums_;
};

bool is_selected(const rows::Peak& row, const PeakSelector& peak) {
  return (!peak.device || row.device == peak.device) &&
         (!peak.process || row.process == *peak.process);
}

constexpr std::uint64_t kAllBytes = ~std::uint64_t{0};

// Adds what each holder had at the level's peak in the process and on the device of `peak`, at most
// `most_bytes` each; with `owner`, only that owner's holders. Returns false if none was added.
bool add_level(const rows::Report& report, const PeakSelector& peak, Level level,
               const std::optional<rows::OptionalText>& owner, Holders& holders,
               std::uint64_t most_bytes = kAllBytes) {
  bool found = false;
  for (const rows::Peak& row : report.peak) {
    if (row.level != level || !is_selected(row, peak)) continue;
    for (const rows::Holder& holder : row.holders) {
      const bool is_rest = holder.origin.owner == "other" && !holder.origin.site;
      if (holder.bytes == 0 || is_rest) continue;
      if (owner && holder.origin.owner != *owner) continue;
      holders.add(holder.origin, std::min(holder.bytes, most_bytes));
      found = true;
    }
  }
  return found;
}

// Adds the holders of one part of a card's peak. Their bytes are those at the peak of the part's
// level, which can be at another time, so each counts at most the part's bytes.
void add_part(const rows::Report& report, const rows::CardPeak& row, const rows::CardPart& part,
              Holders& holders) {
  const std::optional<Level> level = level_of_holders(part.what);
  const PeakSelector of_part{{}, level, row.device, part.process};
  std::optional<rows::OptionalText> owner;
  if (level == Level::kDriver) owner.emplace(part.owner);
  const bool has_lines =
      level && part.process && add_level(report, of_part, *level, owner, holders, part.bytes);
  if (!has_lines) holders.add(part_name(part), part.bytes);
}

// Adds the memory that the job asked the driver for. Segments of the framework are replaced by the
// blocks in them.
void add_asked_for(const rows::Report& report, const PeakSelector& peak, Holders& holders) {
  for (const rows::Peak& row : report.peak) {
    if (row.level != Level::kDriver || !is_selected(row, peak)) continue;
    const PeakSelector same{{}, Level::kFramework, row.device, row.process};
    const bool has_blocks = add_level(report, same, Level::kFramework, std::nullopt, holders);
    for (const rows::Holder& holder : row.holders) {
      if (has_blocks && holder.origin.owner == analyzer::framework_with_blocks().owner) continue;
      holders.add(holder.origin, holder.bytes);
    }
  }
}

// The lines that copied between host and devices. Copies of a process that have no line are left
// out.
std::vector<HeldBytes> copying_lines(const rows::Report& report) {
  Holders lines;
  for (const rows::CopySite& row : report.transfers.sites) {
    if (row.direction && is_between_host_and_device(*row.direction)) {
      lines.add(row.origin, row.bytes);
    }
  }
  return lines.largest_first();
}

}  // namespace

bool is_between_host_and_device(analyzer::Direction direction) {
  return direction == analyzer::Direction::kHostToDevice ||
         direction == analyzer::Direction::kDeviceToHost;
}

std::vector<HeldBytes> holders_at(const rows::Report& report, const PeakSelector& peak) {
  Holders holders;
  if (peak.of) {
    for (const rows::CardPeak& row : report.card_peaks) {
      if (row.of != *peak.of || (peak.device && row.device != peak.device)) continue;
      for (const rows::CardPart& part : row.parts) add_part(report, row, part, holders);
    }
  } else if (peak.level) {
    (void)add_level(report, peak, *peak.level, std::nullopt, holders);
  } else {
    add_asked_for(report, peak, holders);
  }
  return holders.largest_first();
}

std::vector<HeldBytes> holders_of_level(const rows::Report& report, const std::string& level) {
  if (level == kPeakOfJob) {
    const rows::CardPeak* const job = highest_card_peak(report, rows::PeakOf::kJob);
    if (job == nullptr) return {};
    return holders_at(report, {rows::PeakOf::kJob, {}, job->device, {}});
  }
  if (level == kTransfers) return copying_lines(report);
  const rows::Device* highest_device = nullptr;
  for (const rows::Device& row : report.devices) {
    if (level != "physical" || !row.physical_peak) continue;
    const bool is_highest = highest_device == nullptr ||
                            row.physical_peak->bytes > highest_device->physical_peak->bytes;
    if (is_highest) highest_device = &row;
  }
  if (highest_device != nullptr) return holders_at(report, {{}, {}, highest_device->id, {}});
  const rows::Peak* highest = nullptr;
  for (const rows::Peak& row : report.peak) {
    if (name_of(row.level) != level) continue;
    if (highest == nullptr || row.bytes > highest->bytes) highest = &row;
  }
  if (highest == nullptr) return {};
  return holders_at(report, {{}, highest->level, highest->device, highest->process});
}

std::vector<HeldBytes> grown(std::vector<HeldBytes> holders, const std::vector<HeldBytes>& known) {
  for (HeldBytes& holder : holders) {
    const auto base = std::ranges::find(known, holder.call_site, &HeldBytes::call_site);
    if (base != known.end()) holder.base_bytes = base->bytes;
  }
  const auto growth = [](const HeldBytes& holder) {
    const std::uint64_t base = holder.base_bytes.value_or(0);
    return holder.bytes > base ? holder.bytes - base : 0;
  };
  std::erase_if(holders, [&](const HeldBytes& holder) { return growth(holder) == 0; });
  std::ranges::stable_sort(holders, std::ranges::greater(), growth);
  return holders;
}

const rows::CardPeak* highest_card_peak(const rows::Report& report, rows::PeakOf of) {
  const rows::CardPeak* highest = nullptr;
  for (const rows::CardPeak& row : report.card_peaks) {
    if (row.of != of) continue;
    if (highest == nullptr || row.high_bytes > highest->high_bytes) highest = &row;
  }
  return highest;
}

}  // namespace gpumemtrace::tools
