// SPDX-License-Identifier: Apache-2.0
// Reserved memory that lies in pieces beside live blocks.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/rules/allocator_advice.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_significant(const rows::Fragmentation& row, const Thresholds& thresholds) {
  const std::uint64_t unusable = row.unusable_bytes.value_or(0);
  const std::uint64_t reserved = row.reserved_bytes.value_or(0);
  return unusable >= thresholds.bytes(Threshold::kFragmentationBytes) && reserved != 0 &&
         static_cast<double>(unusable) >=
             thresholds[Threshold::kFragmentationShare] * static_cast<double>(reserved);
}

// The worst row of each process and device.
std::vector<const rows::Fragmentation*> worst_moments(const rows::Report& report,
                                                      const Thresholds& thresholds) {
  std::map<std::pair<std::string, rows::OptionalText>, const rows::Fragmentation*> worst;
  for (const rows::Fragmentation& row : report.fragmentation) {
    if (row.at == rows::SnapshotAt::kEnd || !is_significant(row, thresholds)) continue;
    const rows::Fragmentation*& held = worst[{row.process, row.device}];
    if (held == nullptr || row.unusable_bytes > held->unusable_bytes) held = &row;
  }
  std::vector<const rows::Fragmentation*> moments;
  for (const auto& [where, row] : worst) moments.push_back(row);
  return moments;
}

// True if it does not matter: less than a hundredth of a device that never refused a request.
bool is_hardly_felt(const rows::Fragmentation& row, const rows::Report& report) {
  constexpr std::uint64_t kParts = 100;
  const bool was_refused = std::ranges::any_of(
      report.oom, [&](const rows::Oom& oom) { return !oom.device || oom.device == row.device; });
  const rows::Device* const device = rows::find_device(report.devices, row.device);
  return !was_refused && device != nullptr &&
         row.unusable_bytes.value_or(0) < device->total_bytes.value_or(0) / kParts;
}

// Such a process reserves private pools of graphs, and no setting changes them.
bool has_private_pools(const rows::Fragmentation& row, const rows::Report& report) {
  return std::ranges::any_of(report.pools, [&](const rows::PoolRow& pool) {
    return pool.kind == rows::PoolKind::kGraph && pool.process == row.process &&
           pool.device == row.device;
  });
}

// A refused request would have been met: the setting may reserve as much, with more use.
const rows::ReplayedSetting* setting_that_meets_any(const rows::ReplayedAllocator& allocator) {
  for (std::size_t i = 0; i < allocator.refused.size(); ++i) {
    if (!allocator.refused[i].is_replayed) continue;
    if (const auto* setting = setting_that_meets(allocator, i)) return setting;
  }
  return nullptr;
}

std::string as_sentence(std::string advice) {
  if (advice.empty()) return advice;
  advice.front() = static_cast<char>(advice.front() - 'a' + 'A');
  return advice + '.';
}

std::string fix_by_arithmetic(const std::string& unusable, const std::string& or_else) {
  return "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which needs no change of the "
         "program: up to " +
         unusable + " would be usable again (arithmetic)." +
         (or_else.empty() ? "" : " Or " + or_else + '.');
}

std::string fix_by_replay(const rows::ReplayedAllocator& allocator, const std::string& or_else) {
  const std::string otherwise = or_else.empty() ? "" : " Or " + or_else + '.';
  if (const rows::ReplayedSetting* best = best_setting(allocator)) {
    return set_text(*best) + ": " + reserved_text(*best, allocator) +
           ", with no change of the program." + otherwise;
  }
  if (const rows::ReplayedSetting* meets = setting_that_meets_any(allocator)) {
    return set_text(*meets) + ": a request that was refused would have been met " +
           basis_text(*meets) + ", with no change of the program." + otherwise;
  }
  if (const rows::ReplayedSetting* setting = undecided_setting(allocator)) {
    return "Whether " + name_of_setting(*setting) +
           " helps cannot be told from this run: " + reserved_text(*setting, allocator) + '.' +
           otherwise;
  }
  return "Other settings of PyTorch's allocator do not help: those that were tried (" +
         names_of_settings(allocator) + ") save less than 5 % of what is reserved, or nothing " +
         "(replayed)." + otherwise;
}

rows::Finding finding_of(const rows::Fragmentation& row, const rows::Observations& seen) {
  rows::Finding finding = finding_at(Rule::kFragmentation, row);
  const std::string unusable = size_text(row.unusable_bytes.value_or(0));
  finding.bytes = row.unusable_bytes;
  finding.time_ns = row.time_ns;
  finding.evidence.add("at", row.at);
  finding.evidence.add("reserved_bytes", row.reserved_bytes);
  finding.evidence.add("allocated_bytes", row.allocated_bytes);
  finding.evidence.add("free_bytes", row.free_bytes);
  finding.evidence.add("largest_free_bytes", row.largest_free_bytes);
  finding.evidence.add("releasable_bytes", row.releasable_bytes);
  finding.evidence.add("stranded_bytes", row.unusable_bytes);
  finding.title = unusable + " of " + size_text(row.reserved_bytes.value_or(0)) +
                  " reserved memory was free but stranded beside live blocks";
  finding.detail = "At worst " + unusable + " lay beside live blocks, the largest free piece was " +
                   size_text(row.largest_free_bytes.value_or(0)) + ".";
  if (!row.pinned_by.empty()) {
    const rows::PinningBlocks& pin = row.pinned_by.front();
    finding.origin = pin.origin;
    finding.detail += " Blocks from " + site_text(pin.origin.site) + ", " +
                      size_text(pin.bytes_held) + ", keep " + size_text(pin.bytes_unusable) +
                      " of it.";
  }
  finding.saves = {row.unusable_bytes, std::nullopt, rows::SavesBasis::kArithmetic};
  const std::string or_else = advice_on_fragmentation(finding.origin.site);
  const rows::ReplayedAllocator* const replayed = replay_of(seen, row.process, row.device);
  if (replayed == nullptr) {
    finding.fix = was_expandable(seen, row.process, row.device)
                      ? as_sentence(or_else)
                      : fix_by_arithmetic(unusable, or_else);
    return finding;
  }
  finding.fix = fix_by_replay(*replayed, or_else);
  finding.evidence.add("reserved_peak_bytes", replayed->reserved_peak_bytes);
  if (const rows::ReplayedSetting* best = best_setting(*replayed)) {
    const std::uint64_t reserved = replayed->reserved_peak_bytes;
    finding.saves = {reserved - std::min(reserved, best->high_bytes), std::nullopt,
                     rows::SavesBasis::kReplayed};
    finding.evidence.add("replayed_setting", best->options);
    finding.evidence.add("replayed_low_bytes", best->low_bytes);
    finding.evidence.add("replayed_high_bytes", best->high_bytes);
  }
  return finding;
}

}  // namespace

void find_fragmentation(const RuleInput& input, Findings& findings) {
  for (const rows::Fragmentation* row : worst_moments(input.report, input.thresholds)) {
    const bool is_slight = is_hardly_felt(*row, input.report);
    if (is_slight && has_private_pools(*row, input.report)) continue;
    findings.push_back(finding_of(*row, input.seen));
    if (is_slight) findings.back().severity = Severity::kInfo;
  }
}

std::vector<rows::AllocatorToReplay> allocators_to_replay(const rows::Report& report,
                                                          const Thresholds& thresholds) {
  std::set<std::pair<std::string, rows::OptionalText>> with_blocks;
  std::map<std::pair<std::string, rows::OptionalText>, bool> wanted;  // and whether one was refused
  for (const rows::Fragmentation& row : report.fragmentation) {
    if (row.level == Level::kFramework) with_blocks.insert({row.process, row.device});
  }
  for (const rows::Fragmentation* row : worst_moments(report, thresholds)) {
    wanted[{row->process, row->device}];
  }
  for (const rows::Oom& row : report.oom) {
    if (!with_blocks.contains({row.process, row.device})) continue;
    bool& was_refused = wanted[{row.process, row.device}];
    was_refused = was_refused || row.outcome != OomOutcome::kRecovered;
  }
  std::vector<rows::AllocatorToReplay> list;
  for (const auto& [where, was_refused] : wanted) {
    list.push_back({where.first, where.second, was_refused});
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
