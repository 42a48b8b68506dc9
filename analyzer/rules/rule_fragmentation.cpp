// SPDX-License-Identifier: Apache-2.0
// Finds reserved memory that lies in free pieces between live blocks.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/rules/allocator_advice.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_significant(const rows::Fragmentation& row, const Thresholds& thresholds) {
  const std::uint64_t unusable = row.unusable_bytes.value_or(0);
  const std::uint64_t reserved = row.reserved_bytes.value_or(0);
  return unusable >= thresholds.bytes(Threshold::kFragmentationBytes) && reserved != 0 &&
         static_cast<double>(unusable) >=
             thresholds[Threshold::kFragmentationShare] * static_cast<double>(reserved);
}

// For each process and device, the significant row with the most unusable bytes. Rows about the end
// of the trace do not count.
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

// True if fragmentation hardly matters: less than a hundredth of a device that never refused a
// request.
bool is_negligible(const rows::Fragmentation& row, const rows::Report& report) {
  constexpr std::uint64_t kHundredths = 100;
  const bool was_refused = std::ranges::any_of(
      report.oom, [&](const rows::Oom& oom) { return !oom.device || oom.device == row.device; });
  const rows::Device* const device = rows::find_device(report.devices, row.device);
  return !was_refused && device != nullptr &&
         row.unusable_bytes.value_or(0) < device->total_bytes.value_or(0) / kHundredths;
}

// True if the process reserved private pools of CUDA graphs, which no allocator setting changes.
bool has_private_pools(const rows::Fragmentation& row, const rows::Report& report) {
  return std::ranges::any_of(report.pools, [&](const rows::PoolRow& pool) {
    return pool.kind == rows::PoolKind::kGraph && pool.process == row.process &&
           pool.device == row.device;
  });
}

// A setting under which one of the requests is met that the recorded run was refused; nullptr if
// there is none. It may reserve as much as the recorded setting, but make better use of it.
const rows::ReplayedSetting* setting_that_meets_any(const rows::ReplayedAllocator& allocator) {
  for (std::size_t i = 0; i < allocator.refused.size(); ++i) {
    if (!allocator.refused[i].is_replayed) continue;
    if (const auto* setting = setting_that_meets(allocator, i)) return setting;
  }
  return nullptr;
}

// Turns advice, which begins with a lower-case letter and has no full stop, into a sentence that
// begins with a capital and ends with a full stop.
std::string as_sentence(std::string advice) {
  if (advice.empty()) return advice;
  advice.front() = static_cast<char>(advice.front() - 'a' + 'A');
  return advice + '.';
}

// The text on what the replay of other settings showed.
std::string settings_text(const rows::ReplayedAllocator& allocator, Sentence sentence) {
  if (const rows::ReplayedSetting* best = best_setting(allocator)) {
    return with_setting(*best, allocator, sentence)(sentences::kReservesLess);
  }
  if (const rows::ReplayedSetting* meets = setting_that_meets_any(allocator)) {
    return with_setting(*meets, allocator, sentence)(sentences::kMeetsRefused);
  }
  if (const rows::ReplayedSetting* setting = undecided_setting(allocator)) {
    return with_setting(*setting, allocator, sentence)(sentences::kUndecided);
  }
  return sentence.set("settings", names_of_settings(allocator))(sentences::kNoSettingHelps);
}

void add_replay(const rows::ReplayedAllocator& replayed, rows::Finding& finding) {
  finding.evidence.add("reserved_peak_bytes", replayed.reserved_peak_bytes);
  const rows::ReplayedSetting* const best = best_setting(replayed);
  if (best == nullptr) return;
  const std::uint64_t reserved = replayed.reserved_peak_bytes;
  finding.saves = {reserved - std::min(reserved, best->high_bytes), std::nullopt,
                   rows::SavesBasis::kReplayed};
  finding.evidence.add("replayed_setting", best->options);
  finding.evidence.add("replayed_low_bytes", best->low_bytes);
  finding.evidence.add("replayed_high_bytes", best->high_bytes);
}

rows::Finding finding_of(const rows::Fragmentation& row, const rows::Observations& seen) {
  rows::Finding finding = finding_at(Rule::kFragmentation, row);
  finding.bytes = row.unusable_bytes;
  finding.time_ns = row.time_ns;
  finding.saves = {row.unusable_bytes, std::nullopt, rows::SavesBasis::kArithmetic};
  add_evidence(row,
               {"at", "reserved_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes",
                "releasable_bytes", "stranded_bytes"},
               finding.evidence);
  const rows::PinningBlocks* const pin = row.pinned_by.empty() ? nullptr : &row.pinned_by.front();
  if (pin != nullptr) finding.origin = pin->origin;
  const std::string or_else = advice_on_fragmentation(finding.origin.site);
  const rows::ReplayedAllocator* const replayed = replay_of(seen, row.process, row.device);
  Sentence sentence = sentence_on(finding).with(row);
  sentence.set("largest_piece_bytes", row.largest_free_bytes.value_or(0))
      .set("pin", pin == nullptr ? std::string() : site_text(pin->origin.site))
      .set("pin_bytes", pin == nullptr ? 0 : pin->bytes_held)
      .set("pinned_bytes", pin == nullptr ? 0 : pin->bytes_unusable)
      .set("or_else", or_else);
  // True if expandable segments were in use already and no other setting was replayed.
  const bool is_already_expandable =
      replayed == nullptr && was_expandable(seen, row.process, row.device);
  sentence.set("settings", replayed != nullptr     ? settings_text(*replayed, sentence)
                           : is_already_expandable ? std::string()
                                                   : sentence(sentences::kUsableAgain));
  fill_texts(sentences::kFragmentation, sentence, finding);
  if (is_already_expandable) finding.fix = as_sentence(or_else);
  if (replayed != nullptr) add_replay(*replayed, finding);
  return finding;
}

}  // namespace

void find_fragmentation(const RuleInput& input, Findings& findings) {
  for (const rows::Fragmentation* row : worst_moments(input.report, input.thresholds)) {
    const bool is_slight = is_negligible(*row, input.report);
    if (is_slight && has_private_pools(*row, input.report)) continue;
    findings.push_back(finding_of(*row, input.seen));
    if (is_slight) findings.back().severity = Severity::kInfo;
  }
}

// The allocators with significant fragmentation, or with a request that failed, if only at first.
std::vector<rows::AllocatorToReplay> allocators_to_replay(const rows::Report& report,
                                                          const Thresholds& thresholds) {
  std::set<std::pair<std::string, rows::OptionalText>> with_blocks;
  // By process and device: true if a request was refused there.
  std::map<std::pair<std::string, rows::OptionalText>, bool> wanted;
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
