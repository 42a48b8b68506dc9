// SPDX-License-Identifier: Apache-2.0
// Requests for memory that failed: their sizes, the free memory, the holders of the rest.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "analyzer/rules/allocator_advice.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/oom_breakdown.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxHoldersNamed = 3;

std::string owner_text(const rows::OptionalText& owner) {
  return owner.value_or("an owner that is not known");
}

// "77.50 GiB of the program": the largest holders outside the framework; empty if that is little.
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
    text += (named++ == 0 ? " Held by: " : "; ") + size_text(holder.bytes) + ' ';
    text += holder.origin.site ? site_text(holder.origin.site) : owner_text(holder.origin.owner);
  }
  if (!text.empty()) text += '.';
  const std::string other = largest_other(row);
  return other.empty() ? text : text + " Outside PyTorch most is held by " + other + '.';
}

// The largest holder whose site is known; nullptr if none is.
const rows::Holder* largest_site(const rows::Oom& row) {
  for (const rows::Holder& holder : row.holders) {
    if (holder.origin.site) return &holder;
  }
  return nullptr;
}

// "train.py:12 (step), 3.0 GiB in 4 allocations".
std::string holder_text(const rows::Holder& holder) {
  return site_text(holder.origin.site) + ", " + size_text(holder.bytes) + " in " +
         count_of(holder.count, "allocation", "allocations");
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

// A failed request with the known state of memory just then.
struct Failure {
  const rows::Oom& row;
  std::optional<rows::OomBreakdown> breakdown;
  const rows::ReplayedAllocator* replayed = nullptr;  // if its rules are proven
  std::optional<std::size_t> refused;                 // which of replayed->refused it is
  bool is_expandable = false;                         // segments were, in the recorded run
  const rows::PileUp* pile_up = nullptr;              // of the request's line, if there is one

  [[nodiscard]] std::uint64_t capacity() const {
    return breakdown ? breakdown->total_capacity.value_or(0) : 0;
  }
};

// The free bytes of the device. Without a driver's sample nearby, an upper bound: the device's size
// less the bytes of the process.
std::uint64_t free_on_device(const Failure& failure) {
  if (failure.row.device_free_bytes) return *failure.row.device_free_bytes;
  const std::uint64_t total = failure.capacity();
  if (total == 0) return 0;
  const std::uint64_t by_calls = failure.breakdown->process_allocated_by_calls.value_or(0);
  const std::uint64_t free = total - std::min(total, by_calls);
  return std::min(failure.breakdown->free.value_or(free), free);
}

// A request needs one contiguous range: from the framework's segments or from the device. The bytes
// that PyTorch's own limit would have allowed are not known.
std::uint64_t available_bytes(const Failure& failure) {
  if (reached_own_limit(failure.row)) return 0;
  const rows::OptionalNumber& in_segments =
      failure.row.largest_free_bytes ? failure.row.largest_free_bytes : failure.row.free_bytes;
  return std::max(in_segments.value_or(0), free_on_device(failure));
}

std::uint64_t missing_bytes(const Failure& failure) {
  const std::uint64_t requested = failure.row.requested_bytes;
  const std::uint64_t available = available_bytes(failure);
  return requested > available ? requested - available : requested;
}

// The refused request of the replay that the row is about: the first of its kind.
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

// The setting under which the request is met; nullptr if none is known to.
const rows::ReplayedSetting* meeting_setting(const Failure& failure) {
  return failure.refused ? setting_that_meets(*failure.replayed, *failure.refused) : nullptr;
}

bool no_setting_meets(const Failure& failure) {
  if (!failure.refused) return false;
  return std::ranges::all_of(failure.replayed->others, [&](const rows::ReplayedSetting& setting) {
    return *failure.refused < setting.meets.size() && setting.meets[*failure.refused] == false;
  });
}

// The largest request that would have been met instead; 0 if it is not known.
std::uint64_t largest_met(const Failure& failure) {
  return failure.refused ? failure.replayed->refused[*failure.refused].largest_met_bytes : 0;
}

// "at most 11.9 GiB (replayed)"; empty if nothing is known.
std::string at_most_text(const Failure& failure) {
  const std::uint64_t met = largest_met(failure);
  if (met != 0) return "at most " + size_text(met) + " (replayed)";
  const std::uint64_t available = available_bytes(failure);
  return available == 0 ? std::string() : "at most " + size_text(available) + " (arithmetic)";
}

// "Set ...: 0 retries instead of 17 (replayed), with no change of the program. "; empty if no
// setting is known to help.
std::string setting_against_retries(const Failure& failure) {
  if (failure.replayed == nullptr) return {};
  const rows::ReplayedSetting* const setting = setting_with_fewest_retries(*failure.replayed);
  if (setting == nullptr) return {};
  return set_text(*setting) + ": " + count_of(setting->most_retries, "retry", "retries") +
         " of PyTorch's allocator instead of " + std::to_string(failure.replayed->retries) + ' ' +
         basis_text(*setting) + ", with no change of the program. Or: ";
}

std::string fix_for_recovered(const Failure& failure, bool framework) {
  const rows::Oom& row = failure.row;
  const rows::Holder* const largest = largest_site(row);
  const std::string setting = setting_against_retries(failure);
  std::string fix = setting + size_text(row.flushed_bytes) + " had to be given back first" +
                    (row.count == 1 ? "" : ", over all times") +
                    ": do so before this request, or hold less";
  if (largest != nullptr) fix += " (" + holder_text(*largest) + ")";
  if (framework) fix += ", with a smaller batch";
  if (framework && failure.replayed == nullptr && !failure.is_expandable) {
    fix += " or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  }
  fix += ". It would save the " + duration_text(row.lost_ns) + " of the failed attempts (exact).";
  if (failure.replayed == nullptr || !setting.empty()) return fix;
  return fix + " No other setting of PyTorch's allocator retries less often (replayed: " +
         names_of_settings(*failure.replayed) + ").";
}

// A further remedy, on the blocks that lay between the free ones just then; empty if most free
// memory lay on its own.
std::string pinning_text(const rows::Report& report, const rows::Oom& row) {
  if (!row.composition) return {};
  for (const rows::Fragmentation& moment : report.fragmentation) {
    const bool is_then = moment.at == rows::SnapshotAt::kOom && moment.process == row.process &&
                         moment.device == row.device && moment.time_ns == row.composition->time_ns;
    if (!is_then || moment.pinned_by.empty()) continue;
    if (moment.unusable_bytes.value_or(0) * 2 < moment.free_bytes.value_or(0)) return {};
    const std::string advice = advice_on_fragmentation(moment.pinned_by.front().origin.site);
    return advice.empty() ? advice : " Or " + advice + '.';
  }
  return {};
}

std::string none_text(const Failure& failure) {
  return "No other setting of PyTorch's allocator meets this request (replayed: " +
         names_of_settings(*failure.replayed) + ").";
}

std::string ask_less_text(const Failure& failure) {
  const std::optional<rows::Site>& site = failure.row.origin.site;
  const std::string at_most = at_most_text(failure);
  return "Ask for less" + (site ? " at " + site_text(site) : "") +
         (at_most.empty() ? at_most : ", " + at_most);
}

// If it is known that no setting helps, the rest of the fix comes first.
std::string fix_for_fragmented(const rows::Report& report, const Failure& failure) {
  const rows::Oom& row = failure.row;
  const std::string otherwise = pinning_text(report, row);
  if (no_setting_meets(failure)) {
    return ask_less_text(failure) + ": " + none_text(failure) + otherwise;
  }
  if (failure.is_expandable) return ask_less_text(failure) + '.' + otherwise;
  return "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which needs no change of the "
         "program, so that the " +
         size_text(row.free_bytes.value_or(0)) +
         " that PyTorch keeps free in pieces can be one: the request needs " +
         size_text(row.requested_bytes) + " (arithmetic)." + otherwise;
}

// For a request that is itself too large: more than the device has, or than all that was live.
std::string fix_by_asking_less(const Failure& failure) {
  const rows::Oom& row = failure.row;
  const std::uint64_t total = failure.capacity();
  const std::uint64_t held = bytes_held(row);
  const bool can_never_fit = total != 0 && row.requested_bytes > total;
  if (!can_never_fit && row.requested_bytes < held) return {};
  std::string fix = ask_less_text(failure);
  if (can_never_fit) {
    return fix + ": the device has " + size_text(total) +
           " in all, so nothing that is freed makes room for this request.";
  }
  fix += ": it is larger than all " +
         std::string(row.level == Level::kFramework ? "live blocks of PyTorch together"
                                                    : "live memory of the process together") +
         ", " + size_text(held) + '.';
  fix += " If it has to be that large, free " + size_text(missing_bytes(failure)) +
         " before it (arithmetic)";
  const rows::Holder* const holder = largest_site(row);
  return fix + (holder == nullptr ? "." : ": most is held by " + holder_text(*holder) + '.');
}

// Advice on having fewer PyTorch blocks, by their category.
std::string advice_on_category(Category category) {
  switch (category) {
    case Category::kParameter:
    case Category::kGradient:
    case Category::kOptimizerState:
    case Category::kBuffer:
      return ": " + in_words(name_of(category)) +
             ", which a smaller batch does not change; shard or offload it.";
    case Category::kWorkspace:
      return ": workspaces of cuBLAS, which a smaller batch does not change; "
             "CUBLAS_WORKSPACE_CONFIG sets their size.";
    case Category::kActivation:
      return ": a smaller batch, or activation checkpointing.";
    default:
      return ": a smaller batch, activation checkpointing, or letting go of tensors that are no "
             "longer needed.";
  }
}

bool has_framework(const Failure& failure) {
  if (failure.row.level == Level::kFramework) return true;
  return failure.breakdown &&
         failure.breakdown->allocated_by_pytorch.value_or(0) +
                 failure.breakdown->reserved_by_pytorch_but_unallocated.value_or(0) !=
             0;
}

// The change that would have made it fit, by the numbers at that time.
std::string fix_by_numbers(const rows::Report& report, const Failure& failure) {
  const rows::Oom& row = failure.row;
  const bool framework = has_framework(failure);
  if (row.outcome == OomOutcome::kRecovered && failure.replayed != nullptr) {
    return fix_for_recovered(failure, framework);
  }
  if (row.verdict == rows::OomVerdict::kFragmented) return fix_for_fragmented(report, failure);
  if (row.outcome == OomOutcome::kRecovered) return fix_for_recovered(failure, framework);
  if (row.requested_bytes == 0) return {};
  const std::string other = largest_other(row);
  const std::string ask_less = fix_by_asking_less(failure);
  if (!ask_less.empty() && other.empty()) return ask_less;
  std::string fix = (reached_own_limit(row) ? "Free or avoid up to " : "Free or avoid at least ") +
                    size_text(missing_bytes(failure)) +
                    " before this request (arithmetic), beginning with the largest holder";
  if (!other.empty()) return fix + ", the " + other + " outside PyTorch.";
  const rows::Holder* const holder = largest_site(row);
  if (holder != nullptr) fix += " (" + holder_text(*holder) + ")";
  if (holder != nullptr && grew_throughout(report, row, holder->origin.site)) {
    return fix + ", whose memory grew throughout the run: stop that first.";
  }
  if (!framework) return fix + ".";
  return fix + advice_on_category(holder == nullptr ? Category::kUnknown : holder->category);
}

std::uint64_t bytes_a_rise(const rows::PileUp& pile_up) {
  return pile_up.risen_bytes / pile_up.rises;
}

// "train.py:92 (main) had asked for more 6 times in a row before this request, by 238.5 MiB on
// average, up to 1.4 GiB".
std::string pile_up_text(const Failure& failure) {
  const rows::PileUp& pile_up = *failure.pile_up;
  return site_text(failure.row.origin.site) + " had asked for more " +
         count_of(pile_up.rises, "time", "times") + " in a row before this request, by " +
         size_text(bytes_a_rise(pile_up)) + " on average, up to " + size_text(pile_up.last_bytes);
}

// A remedy that meets this request alone comes last, with its effect at the recorded rate.
std::string fix_for_pile_up(const Failure& failure) {
  const std::string rise = size_text(bytes_a_rise(*failure.pile_up));
  std::string fix = "Keep less of each round: " + pile_up_text(failure) +
                    ". Reduce each result before it is kept, send it to the host (.cpu()), or free "
                    "it in each round.";
  if (reached_own_limit(failure.row)) {
    const std::uint64_t free = failure.row.device_free_bytes.value_or(0);
    fix +=
        " A higher limit of PyTorch's own (torch.cuda.set_per_process_memory_fraction) would "
        "meet this request, as " +
        size_text(free) + " of the device were free, and at most " +
        count_of(free / bytes_a_rise(*failure.pile_up), "round", "rounds") +
        " of this kind (arithmetic).";
  } else if (const rows::ReplayedSetting* const setting = meeting_setting(failure)) {
    fix += " With " + name_of_setting(*setting) + " this request would have been met " +
           basis_text(*setting) + "; the next round asks for another " + rise + '.';
  }
  return fix;
}

// The remedy for a process's own limit if the device itself had room, then the rest.
std::string with_own_limit(const rows::Oom& row, const std::string& fix) {
  if (!reached_own_limit(row)) return fix;
  return "Raise PyTorch's own limit (torch.cuda.set_per_process_memory_fraction, or "
         "per_process_memory_fraction of PYTORCH_CUDA_ALLOC_CONF): " +
         size_text(row.device_free_bytes.value_or(0)) + " of the device were free." +
         (fix.empty() ? fix : " Else: " + fix);
}

// A setting that meets the request in a replay comes first. If the replay shows that none does, or
// only one that just meets it while memory is exhausted, the text says so.
std::string fix_for(const rows::Report& report, const Failure& failure) {
  const rows::ReplayedSetting* const setting = meeting_setting(failure);
  const bool is_fragmented = failure.row.verdict == rows::OomVerdict::kFragmented;
  if (setting != nullptr &&
      (is_fragmented || leaves_room(*setting, *failure.replayed, failure.row.requested_bytes))) {
    return set_text(*setting) + ": this request would have been met " + basis_text(*setting) +
           ", with no change of the program; whether the job would have finished is not known." +
           pinning_text(report, failure.row);
  }
  const std::string fix = fix_by_numbers(report, failure);
  const std::uint64_t total = failure.capacity();
  const bool can_be_met = total == 0 || failure.row.requested_bytes <= total;
  if (setting != nullptr && !fix.empty()) {
    return fix + " With " + name_of_setting(*setting) + " this one request would have been met " +
           basis_text(*setting) + ", and hardly any after it.";
  }
  if (fix.empty() || is_fragmented || !can_be_met || !no_setting_meets(failure)) return fix;
  return fix + ' ' + none_text(failure);
}

void add_text(rows::Finding& finding, const rows::Oom& row) {
  const std::string asked = size_text(row.requested_bytes);
  const std::string times =
      row.count == 1 ? std::string() : " (" + count_of(row.count, "time", "times") + ")";
  const std::string place = site_text(row.origin.site);
  const std::string at_place = row.origin.site ? " at " + place : std::string();
  finding.detail = "Tried to allocate " + pytorch_size_text(row.requested_bytes) + " at " + place;
  if (const std::string free = free_memory_text(row, pytorch_size_text); !free.empty()) {
    finding.detail += " with " + free;
  }
  finding.detail += row.verdict == rows::OomVerdict::kUnknown
                        ? "."
                        : ": the memory was " + std::string(name_of(row.verdict)) + ".";
  if (row.outcome == OomOutcome::kRecovered) {
    finding.title =
        "A request for " + asked + at_place + " ran out of memory and recovered" + times;
    finding.detail += " It was met after " + size_text(row.flushed_bytes) +
                      " had been given back, which took " + duration_text(row.lost_ns) + ".";
    return;
  }
  finding.title = "Out of memory: a request for " + asked + at_place + " failed" + times;
  if (row.survived.value_or(false)) {
    finding.title += "; the program went on";
    finding.detail += " The program went on, allocated again and ended by itself.";
  } else if (row.outcome == OomOutcome::kUnknown) {
    finding.detail += " What the program made of the failure the trace does not show.";
  }
}

void add_evidence(const Failure& failure, rows::Evidence& evidence) {
  const rows::Oom& row = failure.row;
  evidence.add("outcome", row.outcome);
  evidence.add("survived", row.survived);
  evidence.add("verdict", row.verdict);
  evidence.add("count", row.count);
  evidence.add("attempts", row.attempts);
  evidence.add("lost_ns", row.lost_ns);
  evidence.add("flushed_bytes", row.flushed_bytes);
  evidence.add("free_bytes", row.free_bytes);
  evidence.add("largest_free_bytes", row.largest_free_bytes);
  evidence.add("step", row.step);
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
  // A program may ask for more than there is on purpose and go on.
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
  add_text(finding, row);
  finding.detail += breakdown_text(failure.breakdown) + holders_text(row);
  if (failure.pile_up != nullptr) {
    finding.detail += ' ' + pile_up_text(failure) + '.';
    finding.evidence.add("rises_before", failure.pile_up->rises);
    finding.evidence.add("risen_bytes_before", failure.pile_up->risen_bytes);
    finding.fix = fix_for_pile_up(failure);
  } else {
    finding.fix = with_own_limit(row, fix_for(report, failure));
  }
  add_evidence(failure, finding.evidence);
  return finding;
}

// In a job of several ranks, which one failed and which one was the first: others often fail
// because of it.
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
    finding.detail += " This was on rank " + std::to_string(rank->second) + '.';
    const bool raised = report.oom[i].outcome == OomOutcome::kRaised && finding.time_ns;
    if (raised && (!first || finding.time_ns < failures[*first].time_ns)) first = i;
  }
  if (!first) return;
  const std::uint64_t first_rank = rank_of.at(failures[*first].process);
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (!rank_of.contains(failures[i].process)) continue;
    failures[i].evidence.add("first_rank_to_fail", first_rank);
    failures[i].detail += i == *first
                              ? " It was the first rank to fail."
                              : " The first rank to fail was " + std::to_string(first_rank) + '.';
  }
}

}  // namespace

void find_out_of_memory(const RuleInput& input, Findings& findings) {
  Findings failures;  // one a row
  for (const rows::Oom& row : input.report.oom) {
    failures.push_back(finding_of(input.report, input.seen, row));
  }
  name_ranks(input.report, failures);
  findings.insert(findings.end(), failures.begin(), failures.end());
}

}  // namespace gpumemtrace::analyzer
