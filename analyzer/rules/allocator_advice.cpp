// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/allocator_advice.hpp"

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A change of the allocator's settings that saves less than 1/20 of the reserved bytes is not worth
// it.
constexpr std::uint64_t kLeastSavingDivisor = 20;

const rows::ReplayedAllocator* find(const rows::Observations& seen, const std::string& process,
                                    const rows::OptionalText& device) {
  for (const rows::ReplayedAllocator& allocator : seen.replayed) {
    if (allocator.process == process && allocator.device == device) return &allocator;
  }
  return nullptr;
}

bool is_worth_it(std::uint64_t bytes, const rows::ReplayedAllocator& allocator) {
  const std::uint64_t recorded = allocator.reserved_peak_bytes;
  return bytes + recorded / kLeastSavingDivisor <= recorded;
}

using Number = std::uint64_t rows::ReplayedSetting::*;

// The setting with the smallest `number` (reserved bytes or retries) of those for which is_wanted()
// is true.
template <class IsWanted>
const rows::ReplayedSetting* least(const rows::ReplayedAllocator& allocator, Number number,
                                   IsWanted is_wanted) {
  const rows::ReplayedSetting* best = nullptr;
  for (const rows::ReplayedSetting& setting : allocator.others) {
    if (!is_wanted(setting)) continue;
    if (best == nullptr || setting.*number < best->*number) best = &setting;
  }
  return best;
}

// The setting with the smallest `number` that still serves all requests, if that saves enough; else
// nullptr.
const rows::ReplayedSetting* least_reserving(const rows::ReplayedAllocator& allocator,
                                             Number number) {
  return least(allocator, number, [&](const rows::ReplayedSetting& setting) {
    return !setting.loses_requests && is_worth_it(setting.*number, allocator);
  });
}

std::string name_of_setting(const rows::ReplayedSetting& setting) {
  if (!setting.options.empty()) return setting.options;
  return Sentence().with(framework_with_blocks())(sentences::kDefaults);
}

}  // namespace

const rows::ReplayedAllocator* replay_of(const rows::Observations& seen, const std::string& process,
                                         const rows::OptionalText& device) {
  const rows::ReplayedAllocator* const allocator = find(seen, process, device);
  return allocator == nullptr || allocator->others.empty() ? nullptr : allocator;
}

bool was_expandable(const rows::Observations& seen, const std::string& process,
                    const rows::OptionalText& device) {
  const rows::ReplayedAllocator* const allocator = find(seen, process, device);
  return allocator != nullptr && allocator->is_expandable;
}

const rows::ReplayedSetting* best_setting(const rows::ReplayedAllocator& allocator) {
  return least_reserving(allocator, &rows::ReplayedSetting::high_bytes);
}

const rows::ReplayedSetting* undecided_setting(const rows::ReplayedAllocator& allocator) {
  return least_reserving(allocator, &rows::ReplayedSetting::low_bytes);
}

const rows::ReplayedSetting* setting_with_fewest_retries(const rows::ReplayedAllocator& allocator) {
  return least(allocator, &rows::ReplayedSetting::most_retries,
               [&](const rows::ReplayedSetting& setting) {
                 return !setting.loses_requests && setting.most_retries < allocator.retries;
               });
}

const rows::ReplayedSetting* setting_that_meets(const rows::ReplayedAllocator& allocator,
                                                std::size_t refused) {
  return least(allocator, &rows::ReplayedSetting::high_bytes,
               [&](const rows::ReplayedSetting& setting) {
                 return refused < setting.meets.size() && setting.meets[refused] == true;
               });
}

bool saves_beyond_request(const rows::ReplayedSetting& setting,
                          const rows::ReplayedAllocator& allocator, std::uint64_t requested_bytes) {
  const std::uint64_t needed = allocator.reserved_peak_bytes + requested_bytes;
  return setting.high_bytes + needed / kLeastSavingDivisor <= needed;
}

Sentence& with_setting(const rows::ReplayedSetting& setting,
                       const rows::ReplayedAllocator& allocator, Sentence& sentence) {
  const bool is_range = size_text(setting.low_bytes) != size_text(setting.high_bytes);
  const bool is_default = setting.options.empty();
  sentence.set("options", setting.options)
      .set("setting", name_of_setting(setting))
      .set("basis", setting.is_sampled ? "(replayed; sizes sampled)" : "(replayed)")
      .set("low_bytes", is_range ? rows::OptionalNumber(setting.low_bytes) : std::nullopt)
      .set("high_bytes", setting.high_bytes)
      .set("recorded_bytes", allocator.reserved_peak_bytes);
  return sentence.set("set", sentence(is_default ? sentences::kSetNothing : sentences::kSet))
      .set("reserved", sentence(sentences::kReserved));
}

std::string names_of_settings(const rows::ReplayedAllocator& allocator) {
  std::string names;
  for (const rows::ReplayedSetting& setting : allocator.others) {
    names += (names.empty() ? "" : "; ") + name_of_setting(setting);
  }
  return names;
}

std::string advice_on_fragmentation(const std::optional<rows::Site>& site) {
  if (!site) return {};
  return Sentence(site).with(framework_with_blocks())(sentences::kEmptyCacheBefore);
}

}  // namespace gpumemtrace::analyzer
