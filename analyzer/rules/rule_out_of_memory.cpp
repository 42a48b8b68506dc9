// SPDX-License-Identifier: Apache-2.0
// Finds requests for memory that failed: their sizes, the free memory, and the holders of the
// memory in use.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rules/allocator_advice.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/oom_breakdown.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxHoldersNamed = 3;

std::string owner_text(const rows::OptionalText& owner) {
  return owner.value_or("an owner that is not known");
}

// The largest holder outside of the framework as text, "77.50 GiB of the program"; empty if it
// holds no more than the framework's blocks.
std::string largest_other(const rows::Oom& row) {
  if (!row.composition || row.level != Level::kFramework) return {};
  const rows::OwnersBytes* largest = nullptr;
  for (const rows::OwnersBytes& part : row.composition->other) {
    if (largest == nullptr || part.bytes > largest->bytes) largest = &part;
  }
  if (largest == nullptr || largest->bytes <= row.composition->framework_allocated) return {};
  const std::string owner = owner_text(largest->owner);
  return size_text(largest->bytes) + " of " + (owner == "program" ? "the program" : owner);
}

std::string holders_text(const rows::Oom& row) {
  std::string text;
  std::size_t named = 0;
  for (const rows::Holder& holder : row.holders) {
    if (holder.origin.owner == "other" || named == kMaxHoldersNamed) continue;
    text += (named++ == 0 ? "" : "; ") + size_text(holder.bytes) + ' ';
    text += holder.origin.site ? site_text(holder.origin.site) : owner_text(holder.origin.owner);
  }
  return text;
}

// The holder with most bytes whose site is known; nullptr if no holder's site is known.
const rows::Holder* largest_site(const rows::Oom& row) {
  for (const rows::Holder& holder : row.holders) {
    if (holder.origin.site) return &holder;
  }
  return nullptr;
}

// The largest holder as text, "train.py:12 (step), 3.0 GiB in 4 allocations"; empty if the site of
// no holder is known.
std::string largest_holder_text(const rows::Oom& row) {
  const rows::Holder* const holder = largest_site(row);
  if (holder == nullptr) return {};
  return Sentence(holder->origin.site).with(*holder)(sentences::kHolder);
}

std::uint64_t bytes_held(const rows::Oom& row) {
  std::uint64_t bytes = 0;
  for (const rows::Holder& holder : row.holders) bytes += holder.bytes;
  return bytes;
}

bool grew_throughout(const rows::Report& report, const rows::Oom& row,
                     const std::optional<rows::Site>& site) {
  for (const rows::Growth& growth : report.leaks.growth) {
    if (growth.process == row.process && growth.origin.site == site) return true;
  }
  return false;
}

// A failed request, and what is known of the memory at that time.
struct Failure {
  const rows::Oom& row;
  std::optional<rows::OomBreakdown> breakdown;
  const rows::ReplayedAllocator* replayed = nullptr;  // set if the allocator's rules are confirmed
  std::optional<std::size_t> refused;                 // index of this request in replayed->refused
  // True if the recorded run had expandable segments.
  bool is_expandable = false;
  // The earlier, growing requests of the same line; nullptr if there were none.
  const rows::PileUp* pile_up = nullptr;

  [[nodiscard]] std::uint64_t capacity() const {
    return breakdown ? breakdown->total_capacity.value_or(0) : 0;
  }
};

// The free bytes of the device. If no sample of the driver is near, an upper bound: the device's
// size less the bytes of the process.
std::uint64_t free_on_device(const Failure& failure) {
  if (failure.row.device_free_bytes) return *failure.row.device_free_bytes;
  const std::uint64_t total = failure.capacity();
  if (total == 0) return 0;
  const std::uint64_t by_calls = failure.breakdown->process_allocated_by_calls.value_or(0);
  const std::uint64_t free = total - std::min(total, by_calls);
  return std::min(failure.breakdown->free.value_or(free), free);
}

// The largest request that could have been met. A request needs one contiguous range, of the
// framework's segments or of the device. 0 if the framework's own limit refused the request: its
// bytes are not known.
std::uint64_t available_bytes(const Failure& failure) {
  if (reached_own_limit(failure.row)) return 0;
  const rows::OptionalNumber& in_segments =
      failure.row.largest_free_bytes ? failure.row.largest_free_bytes : failure.row.free_bytes;
  return std::max(in_segments.value_or(0), free_on_device(failure));
}

// The bytes by which memory was short; the whole request if the memory seemed to be enough.
std::uint64_t missing_bytes(const Failure& failure) {
  const std::uint64_t requested = failure.row.requested_bytes;
  const std::uint64_t available = available_bytes(failure);
  return requested > available ? requested - available : requested;
}

// The index of the replay's refused request that the row is about: the first of equal size within 1
// ms.
std::optional<std::size_t> find_refused(const rows::ReplayedAllocator& replayed,
                                        const rows::Oom& row) {
  constexpr std::uint64_t kNearNs = 1'000'000;
  if (row.level != Level::kFramework || !row.time_ns) return std::nullopt;
  for (std::size_t i = 0; i < replayed.refused.size(); ++i) {
    const rows::RefusedRequest& refused = replayed.refused[i];
    const std::uint64_t apart =
        std::max(refused.time_ns, *row.time_ns) - std::min(refused.time_ns, *row.time_ns);
    if (refused.is_replayed && refused.bytes == row.requested_bytes && apart <= kNearNs) return i;
  }
  return std::nullopt;
}

// The setting under which the request would have been met; nullptr if no such setting is known.
const rows::ReplayedSetting* meeting_setting(const Failure& failure) {
  return failure.refused ? setting_that_meets(*failure.replayed, *failure.refused) : nullptr;
}

bool no_setting_meets(const Failure& failure) {
  if (!failure.refused) return false;
  return std::ranges::all_of(failure.replayed->others, [&](const rows::ReplayedSetting& setting) {
    return *failure.refused < setting.meets.size() && setting.meets[*failure.refused] == false;
  });
}

// The largest request that the recorded settings would have met instead; 0 if it is not known.
std::uint64_t largest_met(const Failure& failure) {
  return failure.refused ? failure.replayed->refused[*failure.refused].largest_met_bytes : 0;
}

std::uint64_t bytes_a_rise(const rows::PileUp& pile_up) {
  return pile_up.risen_bytes / pile_up.rises;
}

// The largest request that fits as text, "at most 11.9 GiB (replayed)"; empty if nothing is known.
std::string at_most_text(const Failure& failure, Sentence sentence) {
  const std::uint64_t met = largest_met(failure);
  if (met != 0) return sentence.set("most_bytes", met)(sentences::kAtMostReplayed);
  const std::uint64_t available = available_bytes(failure);
  if (available == 0) return {};
  return sentence.set("most_bytes", available)(sentences::kAtMostAvailable);
}

// Sets the names that sentences on a failed request use.
Sentence sentence_of(const rows::Finding& finding, const Failure& failure) {
  const rows::Oom& row = failure.row;
  const bool is_known = row.verdict != rows::OomVerdict::kUnknown;
  const bool is_of_framework = row.level == Level::kFramework;
  const std::string live_blocks = "live blocks of " + std::string(framework_with_blocks().name);
  Sentence sentence = sentence_on(finding).with(row);
  sentence.set("tried", message_size_text(row.requested_bytes))
      .set("free", free_memory_text(row, message_size_text))
      .set("reason", is_known ? name_of(row.verdict) : std::string_view())
      .set("times", row.count == 1 ? std::string() : count_of(row.count, "time", "times"))
      .set("holders", holders_text(row))
      .set("holder", largest_holder_text(row))
      .set("other", largest_other(row))
      .set("cached_bytes", row.free_bytes.value_or(0))
      .set("device_bytes", row.device_free_bytes.value_or(0))
      .set("capacity_bytes", failure.capacity())
      .set("held_bytes", bytes_held(row))
      .set("missing_bytes", missing_bytes(failure))
      .set("live_memory", is_of_framework ? live_blocks : "live memory of the process")
      .set("at_most", at_most_text(failure, sentence));
  if (failure.replayed != nullptr) {
    sentence.set("settings", names_of_settings(*failure.replayed))
        .set("recorded_retries", failure.replayed->retries);
  }
  if (failure.pile_up == nullptr) return sentence;
  // {rounds}: the number of further rises that the device's free memory would have met.
  const std::uint64_t rise = bytes_a_rise(*failure.pile_up);
  return sentence.set("rises", failure.pile_up->rises)
      .set("rise_bytes", rise)
      .set("rounds", row.device_free_bytes.value_or(0) / std::max<std::uint64_t>(rise, 1))
      .set("last_bytes", failure.pile_up->last_bytes);
}

// The text on a setting with fewer retries: "Set ...: 0 retries instead of 17 (replayed), with no
// change of the program. "; empty if no setting is known to help.
std::string setting_against_retries(const Failure& failure, Sentence sentence) {
  if (failure.replayed == nullptr) return {};
  const rows::ReplayedSetting* const setting = setting_with_fewest_retries(*failure.replayed);
  if (setting == nullptr) return {};
  sentence.set("setting_retries", setting->most_retries);
  return with_setting(*setting, *failure.replayed, sentence)(sentences::kFewerRetries);
}

// The fix for a request that failed at first and was met after the cache was flushed.
std::string fix_for_recovered(const Failure& failure, bool framework, const Sentence& sentence) {
  const std::string setting = setting_against_retries(failure, sentence);
  std::string fix = setting + sentence(sentences::kFlushBefore);
  if (framework) fix += sentences::kSmallerBatch;
  if (framework && failure.replayed == nullptr && !failure.is_expandable) {
    fix += sentence(sentences::kOrExpandableSegments);
  }
  fix += sentence(sentences::kSavesAttempts);
  if (failure.replayed == nullptr || !setting.empty()) return fix;
  return fix + sentence(sentences::kNoFewerRetries);
}

// A further remedy, on the live blocks between free ones at the failure; empty if the free memory
// was mostly usable.
std::string pinning_text(const rows::Report& report, const rows::Oom& row) {
  if (!row.composition) return {};
  for (const rows::Fragmentation& moment : report.fragmentation) {
    const bool is_then = moment.at == rows::SnapshotAt::kOom && moment.process == row.process &&
                         moment.device == row.device && moment.time_ns == row.composition->time_ns;
    if (!is_then || moment.pinned_by.empty()) continue;
    if (moment.unusable_bytes.value_or(0) * 2 < moment.free_bytes.value_or(0)) return {};
    const rows::Origin& origin = moment.pinned_by.front().origin;
    return Sentence().set("or_else", advice_on_fragmentation(origin.site))(sentences::kOr);
  }
  return {};
}

// The fix for fragmented memory. If it is known that no setting helps, the fix begins with asking
// for less.
std::string fix_for_fragmented(const rows::Report& report, const Failure& failure,
                               const Sentence& sentence) {
  const std::string otherwise = pinning_text(report, failure.row);
  if (no_setting_meets(failure)) {
    return sentence(sentences::kAskForLess) + ": " + sentence(sentences::kNoSettingMeets) +
           otherwise;
  }
  if (failure.is_expandable) return sentence(sentences::kAskForLess) + '.' + otherwise;
  return sentence(sentences::kJoinPieces) + otherwise;
}

// Advice for a request that is itself too large: larger than the device, or than all memory that
// was live. Empty for other requests.
std::string fix_by_asking_less(const Failure& failure, const Sentence& sentence) {
  const rows::Oom& row = failure.row;
  const std::uint64_t total = failure.capacity();
  const bool can_never_fit = total != 0 && row.requested_bytes > total;
  if (!can_never_fit && row.requested_bytes < bytes_held(row)) return {};
  return sentence(sentences::kAskForLess) +
         sentence(can_never_fit ? sentences::kCanNeverFit : sentences::kLargerThanAll);
}

// Advice on having fewer blocks of the framework, by their category.
std::string_view advice_on(Category category) {
  switch (category) {
    case Category::kParameter:
    case Category::kGradient:
    case Category::kOptimizerState:
    case Category::kBuffer:
      return sentences::kShardState;
    case Category::kWorkspace:
      return sentences::kWorkspaces;
    case Category::kActivation:
      return sentences::kActivations;
    default:
      return sentences::kAnyTensors;
  }
}

bool has_framework(const Failure& failure) {
  if (failure.row.level == Level::kFramework) return true;
  return failure.breakdown &&
         failure.breakdown->allocated_by_pytorch.value_or(0) +
                 failure.breakdown->reserved_by_pytorch_but_unallocated.value_or(0) !=
             0;
}

// The change that would have made the request fit, by the numbers at that time.
std::string fix_by_numbers(const rows::Report& report, const Failure& failure, Sentence sentence) {
  const rows::Oom& row = failure.row;
  const bool framework = has_framework(failure);
  const bool is_recovered = row.outcome == OomOutcome::kRecovered;
  const bool is_fragmented = row.verdict == rows::OomVerdict::kFragmented;
  if (is_recovered && (failure.replayed != nullptr || !is_fragmented)) {
    return fix_for_recovered(failure, framework, sentence);
  }
  if (is_fragmented) return fix_for_fragmented(report, failure, sentence);
  if (row.requested_bytes == 0) return {};
  const bool has_other = !largest_other(row).empty();
  const std::string ask_less = fix_by_asking_less(failure, sentence);
  if (!ask_less.empty() && !has_other) return ask_less;
  const std::string fix =
      sentence(reached_own_limit(row) ? sentences::kAvoidUpTo : sentences::kAvoidAtLeast);
  if (has_other) return fix + sentence(sentences::kTheOther);
  const rows::Holder* const holder = largest_site(row);
  const std::string with_holder = fix + sentence(sentences::kTheHolder);
  if (holder != nullptr && grew_throughout(report, row, holder->origin.site)) {
    return with_holder + std::string(sentences::kHolderGrew);
  }
  if (!framework) return with_holder + ".";
  const Category category = holder == nullptr ? Category::kUnknown : holder->category;
  sentence.set("category", in_words(name_of(category)));
  return with_holder + sentence(advice_on(category));
}

// The fix for growing requests. A setting or limit that meets only this request comes last, with
// its effect at the recorded rate of growth.
std::string fix_for_pile_up(const Failure& failure, Sentence sentence) {
  sentence.set("pile_up", sentence(sentences::kPileUp));
  const std::string fix = sentence(sentences::kKeepLess);
  if (reached_own_limit(failure.row)) return fix + sentence(sentences::kHigherLimit);
  const rows::ReplayedSetting* const setting = meeting_setting(failure);
  if (setting == nullptr) return fix;
  return fix + with_setting(*setting, *failure.replayed, sentence)(sentences::kSettingMeetsOne);
}

// Puts the remedy for a process's own limit before the fix if the device itself had room.
std::string with_own_limit(const rows::Oom& row, const std::string& fix, Sentence sentence) {
  return reached_own_limit(row) ? sentence.set("else", fix)(sentences::kRaiseLimit) : fix;
}

// The fix for a failed request. A setting that meets the request in a replay comes first. If the
// replay shows that no setting does, or only one that just meets it while memory is exhausted, the
// text says so.
std::string fix_for(const rows::Report& report, const Failure& failure, Sentence sentence) {
  const rows::ReplayedSetting* const setting = meeting_setting(failure);
  const bool is_fragmented = failure.row.verdict == rows::OomVerdict::kFragmented;
  if (setting != nullptr) with_setting(*setting, *failure.replayed, sentence);
  if (setting != nullptr && (is_fragmented || saves_beyond_request(*setting, *failure.replayed,
                                                                   failure.row.requested_bytes))) {
    return sentence(sentences::kSettingMeets) + pinning_text(report, failure.row);
  }
  const std::string fix = fix_by_numbers(report, failure, sentence);
  const std::uint64_t total = failure.capacity();
  const bool can_be_met = total == 0 || failure.row.requested_bytes <= total;
  if (setting != nullptr && !fix.empty()) return fix + sentence(sentences::kSettingJustMeets);
  if (fix.empty() || is_fragmented || !can_be_met || !no_setting_meets(failure)) return fix;
  return fix + ' ' + sentence(sentences::kNoSettingMeets);
}

void add_text(rows::Finding& finding, const Failure& failure, const Sentence& sentence) {
  const rows::Oom& row = failure.row;
  const bool is_recovered = row.outcome == OomOutcome::kRecovered;
  finding.title = sentence(is_recovered ? sentences::kRecovered : sentences::kOutOfMemory);
  finding.detail = sentence(sentences::kTried);
  if (is_recovered) {
    finding.detail += sentence(sentences::kMetAfterFlush);
  } else if (row.survived.value_or(false)) {
    finding.title += sentences::kTitleWentOn;
    finding.detail += sentences::kWentOn;
  } else if (row.outcome == OomOutcome::kUnknown) {
    finding.detail += sentences::kOutcomeUnknown;
  }
  finding.detail += breakdown_text(failure.breakdown);
  if (!holders_text(row).empty()) finding.detail += sentence(sentences::kHeldBy);
  if (!largest_other(row).empty()) finding.detail += sentence(sentences::kOutsideFramework);
}

void add_failure(const Failure& failure, rows::Evidence& evidence) {
  add_evidence(failure.row,
               {"outcome", "survived", "verdict", "count", "attempts", "lost_ns", "flushed_bytes",
                "free_bytes", "largest_free_bytes", "step"},
               evidence);
  evidence.add("ledger", failure.breakdown);
  if (!failure.refused) return;
  if (const rows::ReplayedSetting* setting = meeting_setting(failure)) {
    evidence.add("replayed_setting", setting->options);
  }
  if (largest_met(failure) != 0) evidence.add("replayed_largest_met_bytes", largest_met(failure));
}

rows::Finding finding_of(const rows::Report& report, const rows::Observations& seen,
                         const rows::Oom& row) {
  const bool recovered = row.outcome == OomOutcome::kRecovered;
  rows::Finding finding =
      finding_at(recovered ? Rule::kOutOfMemoryRecovered : Rule::kOutOfMemory, row);
  // A program that goes on after the failure may have asked for too much on purpose: only a
  // warning.
  const bool went_on = row.survived.value_or(false);
  if (row.outcome == OomOutcome::kUnknown || went_on) finding.severity = Severity::kWarning;
  Failure failure{row, breakdown_of(report.devices, row), replay_of(seen, row.process, row.device),
                  std::nullopt, was_expandable(seen, row.process, row.device)};
  if (failure.replayed != nullptr) failure.refused = find_refused(*failure.replayed, row);
  const auto pile_up = std::ranges::find_if(seen.pile_ups, [&](const rows::PileUp& seen_row) {
    return seen_row.process == row.process && seen_row.device == row.device &&
           seen_row.time_ns == row.time_ns;
  });
  if (pile_up != seen.pile_ups.end() && !recovered) failure.pile_up = &*pile_up;
  finding.bytes = row.requested_bytes;
  if (recovered) finding.saves = {std::nullopt, row.lost_ns, rows::SavesBasis::kExact};
  finding.time_ns = row.time_ns;
  const Sentence sentence = sentence_of(finding, failure);
  add_text(finding, failure, sentence);
  if (failure.pile_up != nullptr) {
    finding.detail += ' ' + sentence(sentences::kPileUp) + '.';
    finding.evidence.add("rises_before", failure.pile_up->rises);
    finding.evidence.add("risen_bytes_before", failure.pile_up->risen_bytes);
    finding.fix = fix_for_pile_up(failure, sentence);
  } else {
    finding.fix = with_own_limit(row, fix_for(report, failure, sentence), sentence);
  }
  add_failure(failure, finding.evidence);
  return finding;
}

// In a job of several ranks, adds which rank failed and which one failed first: the other ranks
// often fail because of the first.
void name_ranks(const rows::Report& report, Findings& failures) {
  std::map<rows::OptionalText, std::uint64_t> rank_of;
  for (const rows::Process& process : report.processes) {
    if (process.rank) rank_of[process.id] = *process.rank;
  }
  if (rank_of.size() < 2) return;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    rows::Finding& finding = failures[i];
    const auto rank = rank_of.find(finding.process);
    if (rank == rank_of.end()) continue;
    finding.evidence.add("rank", rank->second);
    finding.detail += Sentence().set("rank", rank->second)(sentences::kOnRank);
    const bool raised = report.oom[i].outcome == OomOutcome::kRaised && finding.time_ns;
    if (raised && (!first || finding.time_ns < failures[*first].time_ns)) first = i;
  }
  if (!first) return;
  const std::uint64_t first_rank = rank_of.at(failures[*first].process);
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (!rank_of.contains(failures[i].process)) continue;
    failures[i].evidence.add("first_rank_to_fail", first_rank);
    failures[i].detail += Sentence().set("first_rank", first_rank)(
        i == *first ? sentences::kFirstToFail : sentences::kFirstToFailWas);
  }
}

}  // namespace

void find_out_of_memory(const RuleInput& input, Findings& findings) {
  Findings failures;  // one finding for each row of oom[]
  for (const rows::Oom& row : input.report.oom) {
    failures.push_back(finding_of(input.report, input.seen, row));
  }
  name_ranks(input.report, failures);
  findings.insert(findings.end(), failures.begin(), failures.end());
}

}  // namespace gpumemtrace::analyzer
