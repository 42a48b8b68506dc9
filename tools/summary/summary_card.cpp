// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_card.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/find_card_peak.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;

// The summary shows a card at the time of a failed request, unless the card's use then was lower
// than its peak by more than one part in this many.
constexpr std::uint64_t kLittleLess = 10;

struct Part {
  std::uint64_t rows::Composition::*bytes;
  rows::CardPartKind kind;
};
constexpr Part kParts[] = {
    {&rows::Composition::framework_allocated, rows::CardPartKind::kFrameworkAllocated},
    {&rows::Composition::framework_cached, rows::CardPartKind::kFrameworkCached},
    {&rows::Composition::pool_used, rows::CardPartKind::kPoolUsed},
    {&rows::Composition::pool_cached, rows::CardPartKind::kPoolCached},
};

// Bytes in use on the card beyond the process's own allocation calls; 0 if they are parts of their
// own in the composition, nullopt if they are not known.
std::optional<std::uint64_t> outside_calls(const rows::Composition& row) {
  // NVML tells contexts and other processes apart, so they are parts of their own.
  if (row.source == "nvml_process") return 0;
  if (row.outside_calls) return row.outside_calls;
  // Older reports lack the key outside_calls; `unattributed` equals it if nothing changed between
  // the driver's sample and the peak.
  if (row.unattributed && *row.unattributed >= 0 && !row.driver_bytes) {
    return static_cast<std::uint64_t>(*row.unattributed);
  }
  return std::nullopt;
}

// Adds the parts of the composition to `card`, largest first, sums their bytes, and notes if they
// cover the whole card.
void add_parts(const rows::Composition& row, CardState& card) {
  const auto add = [&](std::uint64_t bytes, std::string name) {
    if (bytes != 0) card.parts.push_back({bytes, std::move(name)});
  };
  for (const Part& part : kParts) {
    const std::uint64_t bytes = row.*part.bytes;
    add(bytes, part_name({std::nullopt, part.kind, std::nullopt, bytes}));
  }
  for (const rows::OwnersBytes& other : row.other) {
    add(other.bytes, other.owner.value_or("owner not known"));
  }
  add(row.context_and_modules.value_or(0), "context and modules");
  add(row.other_processes.value_or(0), "other processes");
  if (!row.source.empty() && row.source != "none") {
    const std::optional<std::uint64_t> outside = outside_calls(row);
    add(outside.value_or(0), "contexts, modules and other processes");
    card.is_whole_card = outside.has_value();
  }
  std::ranges::stable_sort(card.parts, std::ranges::greater(), &NamedPart::bytes);
  for (const NamedPart& part : card.parts) card.bytes += part.bytes;
}

// The owner that held most memory at a peak.
std::string owner_of_most(const rows::Peak& peak) {
  std::map<std::string, std::uint64_t> bytes;
  for (const rows::Holder& holder : peak.holders) {
    bytes[holder.origin.owner.value_or("")] += holder.bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? std::string() : most->first;
}

// The state of a card at its peak: the parts of the peak, with the process's name if several
// processes have parts.
CardState state_of(const Report& report, const rows::CardPeak& row) {
  CardState card;
  card.device = *row.device;
  card.bytes = row.bytes;
  card.row = &row;
  card.is_whole_card = true;
  std::set<std::string> processes;
  for (const rows::CardPart& part : row.parts) {
    if (part.process) processes.insert(*part.process);
  }
  for (const rows::CardPart& part : row.parts) {
    std::string name = part_name(part);
    if (part.process && processes.size() > 1) {
      name += format_text(" of {}", process_name(report, *part.process));
    }
    card.parts.push_back({part.bytes, std::move(name)});
  }
  std::ranges::stable_sort(card.parts, std::ranges::greater(), &NamedPart::bytes);
  return card;
}

bool has_failed(const Report& report, const std::string& process, const std::string& device) {
  return std::ranges::any_of(report.oom, [&](const rows::Oom& row) {
    return row.process == process && row.device == device &&
           row.outcome != analyzer::OomOutcome::kRecovered && row.composition;
  });
}

// The largest composition that the report has for the process and the device of `largest` at the
// moment `at`; 0 bytes if there is none.
CardState card_at(const Report& report, const rows::Peak& largest, rows::SnapshotAt at) {
  CardState fullest;
  fullest.device = *largest.device;
  fullest.process = largest.process;
  fullest.step = largest.step;
  for (const rows::Composition& row : report.composition) {
    if (row.process != largest.process || row.device != *largest.device || row.at != at) continue;
    CardState card;
    card.device = fullest.device;
    card.process = fullest.process;
    card.step = fullest.step;
    card.composition = &row;
    add_parts(row, card);
    if (card.bytes > fullest.bytes) fullest = std::move(card);
  }
  return fullest;
}

}  // namespace

const rows::Device* find_device(const Report& report, const std::string& device) {
  const auto row = std::ranges::find(report.devices, device, &rows::Device::id);
  return row == report.devices.end() ? nullptr : &*row;
}

// The card at the failure of a request if it was about as full then, else at its peak; nullopt if
// no memory of the device was allocated.
std::optional<CardState> card_state(const Report& report, const std::string& device) {
  const rows::Peak* largest = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (peak.device != device || peak.level == Level::kFramework || peak.bytes == 0) continue;
    if (largest == nullptr || peak.bytes > largest->bytes) largest = &peak;
  }
  if (largest == nullptr) return std::nullopt;
  const rows::CardPeak* row = find_card_peak(report.card_peaks, device, rows::PeakOf::kCard);
  CardState peak = row != nullptr ? state_of(report, *row)
                                  : card_at(report, *largest, rows::SnapshotAt::kDriverPeak);
  if (peak.bytes == 0) peak.bytes = largest->bytes;
  if (!has_failed(report, largest->process, device)) return peak;
  // A request can fail long after the peak, when little is in use.
  CardState failure = card_at(report, *largest, rows::SnapshotAt::kOom);
  failure.has_failed = true;
  return failure.bytes < peak.bytes - peak.bytes / kLittleLess ? peak : failure;
}

std::optional<CardState> fullest_card(const Report& report) {
  std::optional<CardState> fullest;
  double most = -1;
  for (const rows::Device& device : report.devices) {
    std::optional<CardState> card = card_state(report, device.id);
    if (!card) continue;
    const double total = static_cast<double>(device.total_bytes.value_or(UINT64_MAX));
    const double share = static_cast<double>(card->bytes) / total;
    if (share <= most) continue;
    most = share;
    fullest = std::move(card);
  }
  return fullest;
}

const rows::Peak* main_peak(const Report& report, std::string_view device) {
  const rows::Peak* blocks = nullptr;
  const rows::Peak* memory = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (!peak.device || peak.bytes == 0 || (!device.empty() && *peak.device != device)) continue;
    const rows::Peak*& largest = peak.level == Level::kFramework ? blocks : memory;
    if (largest == nullptr || peak.bytes > largest->bytes) largest = &peak;
  }
  const bool blocks_are_small = blocks != nullptr && memory != nullptr &&
                                blocks->bytes < memory->bytes / 2 &&
                                owner_of_most(*memory) != analyzer::framework_with_blocks().owner;
  return blocks == nullptr || blocks_are_small ? memory : blocks;
}

}  // namespace gpumemtrace::tools
