// SPDX-License-Identifier: Apache-2.0
// Sites whose live memory rises throughout the run: leaks.growth[].
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/report/growth_causes.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The GrowthWindow is divided into this many parts, and memory must rise in each.
constexpr std::size_t kParts = 4;
// Each part must have at least 1/100 of the whole rise.
constexpr std::uint64_t kLeastPartOfRise = 100;
constexpr std::size_t kLeastStretches = 8;
constexpr std::uint64_t kLeastAllocations = 32;  // a process with fewer allocations has no loop

struct SiteHistory {
  std::vector<History::Stretch> stretches;
  // The stack of that group of the site's allocations which grew most; of groups with equal growth,
  // of the one with most allocations.
  std::string stack;
  // The rise of the group with this stack, in bytes, and the number of its allocations.
  std::pair<std::uint64_t, std::uint64_t> most;
  Releases freed;
};

// The stretches of the run (each has equally many allocations and frees of the process) in which
// growth is looked for: from the end of the warm-up to the site's last allocation. Frees
// afterwards, at the end of the program, do not undo growth.
struct GrowthWindow {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The number of stretches from the run's start to the process's last allocation. Stretches with
// frees alone are left out: at its end a process may free as often as it ever allocated.
std::size_t allocating_end(const History& history) {
  std::size_t end = history.flow().size();
  while (end > 0 && history.flow()[end - 1].allocations == 0) --end;
  return end;
}

std::size_t warmup_end(const History& history, const Thresholds& thresholds) {
  return static_cast<std::size_t>(thresholds[Threshold::kGrowthWarmupShare] *
                                  static_cast<double>(allocating_end(history)));
}

// The stretches from `begin` up to, but without, that of the site's last allocation: it may also
// have frees of the program's end.
GrowthWindow window_of(const std::vector<History::Stretch>& stretches, std::size_t begin) {
  std::size_t end = stretches.size() - 1;
  while (end > 0 && stretches[end].allocations == 0) --end;
  return {begin, std::max(begin, end)};
}

// True if the process both allocates and frees. A program that builds up its data frees little:
// without frees there is no steady state in which growth could be found.
bool is_steady(const History& history, const GrowthWindow& window, const Thresholds& thresholds) {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  for (std::size_t i = window.begin; i < window.end; ++i) {
    allocations += history.flow()[i].allocations;
    frees += history.flow()[i].frees;
  }
  return allocations >= kLeastAllocations &&
         static_cast<double>(frees) >=
             thresholds[Threshold::kGrowthFreeShare] * static_cast<double>(allocations);
}

// The memory that stays, as one number for each stretch of the window: the least that was live in
// it and in all later ones. `low` chooses between bytes and number of allocations.
std::vector<std::uint64_t> retained_minimum(const std::vector<History::Stretch>& stretches,
                                            const GrowthWindow& window,
                                            std::uint64_t History::Stretch::*low) {
  std::vector<std::uint64_t> stays(window.end - window.begin);
  std::uint64_t lowest = stretches[window.end - 1].*low;
  for (std::size_t i = stays.size(); i-- > 0;) {
    lowest = std::min(lowest, stretches[window.begin + i].*low);
    stays[i] = lowest;
  }
  return stays;
}

// The rise of live memory that was not freed again, in bytes or allocations as `low` chooses.
std::uint64_t rise_of(const std::vector<History::Stretch>& stretches, const GrowthWindow& window,
                      std::uint64_t History::Stretch::*low) {
  if (window.begin == window.end) return 0;
  const std::vector<std::uint64_t> stays = retained_minimum(stretches, window, low);
  return stays.back() - stays.front();
}

// The growth of a site. Live memory must rise in every part of the window, and by a significant
// amount: a sawtooth rises for good only in its last tooth, even if its feet hardly differ, and a
// cache that fills once rises only in the beginning. Only the numbers of bytes and calls are set.
rows::Growth growth_of(const std::vector<History::Stretch>& stretches, const GrowthWindow& window,
                       std::size_t allocating_end) {
  rows::Growth growth;
  const std::size_t length = window.end - window.begin;
  if (length < kLeastStretches || length * 2 + window.begin < allocating_end) return growth;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool before = i < window.begin;
    const bool inside = !before && i < window.end;
    (before   ? growth.frees_before
     : inside ? growth.frees
              : growth.frees_after) += stretches[i].frees;
    if (inside) growth.allocations += stretches[i].allocations;
  }
  const std::vector<std::uint64_t> stays =
      retained_minimum(stretches, window, &History::Stretch::low_bytes);
  const std::vector<std::uint64_t> count =
      retained_minimum(stretches, window, &History::Stretch::low_count);
  std::array<std::uint64_t, kParts> rose{};
  std::uint64_t larger_bytes = 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (stays[i] == stays[i - 1]) continue;
    ++growth.rises;
    rose[i * kParts / length] += stays[i] - stays[i - 1];
    if (count[i] == count[i - 1]) larger_bytes += stays[i] - stays[i - 1];
  }
  const std::uint64_t bytes = stays.back() - stays.front();
  const bool everywhere = std::ranges::all_of(
      rose, [&](std::uint64_t part) { return part != 0 && part >= bytes / kLeastPartOfRise; });
  if (!everywhere) return growth;
  growth.larger_bytes = larger_bytes;
  growth.bytes = bytes;
  growth.blocks = count.back() - count.front();
  return growth;
}

void add(std::vector<History::Stretch>& sums, const std::vector<History::Stretch>& more) {
  sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    sums[i].low_bytes += more[i].low_bytes;
    sums[i].low_count += more[i].low_count;
    sums[i].allocations += more[i].allocations;
    sums[i].frees += more[i].frees;
  }
}

// Sums the memory histories of groups of allocations by site. Groups without an allocation from
// stretch `begin` on are left out.
std::map<SiteKey, SiteHistory> sites_of(const ReportContext& context, const ReportProcess& process,
                                        std::size_t begin) {
  const Accounts& accounts = process.model().accounts();
  std::map<SiteKey, SiteHistory> sites;
  for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
    const Group& group = accounts.group(i);
    const Level level = level_of(group.key.kind);
    if (!is_own_memory(level)) continue;
    // The framework's segments are left out: the blocks inside them have groups of their own.
    if (group.segments != 0) continue;
    const std::vector<History::Stretch> stretches = accounts.history().stretches_of(i);
    const bool allocates =
        std::any_of(stretches.begin() + static_cast<std::ptrdiff_t>(begin), stretches.end(),
                    [](const History::Stretch& stretch) { return stretch.allocations != 0; });
    if (!allocates) continue;
    SiteKey key{group.key.device, level, context.identity_of(process, {i, false})};
    const std::string stack = take_stack(key.identity);
    SiteHistory& site = sites[key];
    add(site.stretches, stretches);
    site.freed.merge(group.freed);
    const std::pair rank(
        rise_of(stretches, window_of(stretches, begin), &History::Stretch::low_bytes),
        group.allocations);
    if (rank > site.most) {
      site.most = rank;
      site.stack = stack;
    }
  }
  return sites;
}

struct StepsPassed {
  std::uint64_t count = 0;
  bool inferred = false;  // true if the steps are a guess, since the job did not mark them
};

// The number of steps that had ended at `time_ns`, by the steps' own indexes. If there are very
// many steps the report has only some of them; those between two of these are taken as evenly
// spread.
double steps_ended_by(const std::vector<const rows::Step*>& steps, std::uint64_t time_ns) {
  const auto next = std::partition_point(
      steps.begin(), steps.end(), [&](const rows::Step* step) { return *step->end_ns <= time_ns; });
  if (next == steps.begin()) return static_cast<double>(steps.front()->index);
  const rows::Step& former = **(next - 1);
  const auto ended = static_cast<double>(former.index + 1);
  if (next == steps.end() || (*next)->index <= former.index + 1) return ended;
  const auto left_out = static_cast<double>((*next)->index - former.index - 1);
  return ended + left_out * static_cast<double>(time_ns - *former.end_ns) /
                     static_cast<double>(*(*next)->end_ns - *former.end_ns);
}

StepsPassed steps_between(const std::vector<rows::Step>& steps, const std::string& process,
                          std::uint64_t begin_ns, std::uint64_t end_ns) {
  StepsPassed passed;
  std::vector<const rows::Step*> own;
  for (const rows::Step& step : steps) {
    if (step.process != process || !step.end_ns) continue;
    own.push_back(&step);
    if (*step.end_ns > begin_ns && *step.end_ns <= end_ns) passed.inferred |= step.is_inferred;
  }
  if (own.empty()) return passed;
  std::ranges::sort(own, {}, [](const rows::Step* step) { return *step->end_ns; });
  passed.count = static_cast<std::uint64_t>(
      std::max(0.0, std::round(steps_ended_by(own, end_ns) - steps_ended_by(own, begin_ns))));
  return passed;
}

// The time at which the device will be full if memory goes on rising at this rate; no value if the
// size of the device is not known, or if the rise was too short to measure.
rows::OptionalTime forecast_ns(const std::vector<rows::Device>& devices,
                               const rows::Growth& growth) {
  const rows::Device* const device = rows::find_device(devices, growth.device);
  if (device == nullptr || !device->total_bytes || !device->physical_peak) {
    return std::nullopt;
  }
  if (growth.bytes == 0 || growth.end_ns < growth.begin_ns + kShortestRateNs) return std::nullopt;
  const auto total = static_cast<double>(*device->total_bytes);
  const auto used = static_cast<double>(device->physical_peak->bytes);
  const double rate =
      static_cast<double>(growth.bytes) / static_cast<double>(growth.end_ns - growth.begin_ns);
  const double forecast = static_cast<double>(growth.end_ns) + std::max(0.0, total - used) / rate;
  constexpr double kTenYearsNs = 3.2e17;
  if (forecast >= kTenYearsNs) return std::nullopt;
  return static_cast<std::uint64_t>(forecast);
}

// Memory of which nothing is freed, in a process that frees little, may be a cache or a data set
// that fills for as long as the recording runs. A large amount of such memory, over many steps, is
// reported.
bool is_significant(const rows::Growth& row, std::uint64_t peak_bytes,
                    const Thresholds& thresholds) {
  constexpr std::uint64_t kLeastSteps = 8;
  return row.level == Level::kFramework && row.frees_before + row.frees == 0 && row.blocks != 0 &&
         row.steps.value_or(0) >= kLeastSteps &&
         static_cast<double>(row.bytes) >=
             thresholds[Threshold::kGrowthFillShare] * static_cast<double>(peak_bytes);
}

std::uint64_t peak_of(const Accounts& accounts, const SiteKey& key) {
  for (const Account& account : accounts.accounts()) {
    if (account.level == key.level && account.device == key.device) return account.peak.bytes();
  }
  return 0;
}

// Within its first steps a training only builds up: parameters, activations, gradients and the
// optimizer's state, one after the other.
bool is_training_that_just_began(const ReportProcess& process,
                                 const std::vector<rows::Step>& steps) {
  constexpr std::uint64_t kFewPasses = 2;
  const std::uint64_t passes = process.model().program().backward_passes();
  return passes != 0 && passes <= kFewPasses &&
         std::ranges::none_of(steps, [&](const rows::Step& step) {
           return step.process == process.id && step.end_ns;
         });
}

using GrowthBySite = std::map<SiteKey, rows::Growth>;

// Counts the other sites that allocate on the same level, and those of them that grow. If the
// blocks of other sites are freed while this site's memory grows, no common cause keeps them.
void count_others(const SiteKey& key, const GrowthBySite& growths, rows::Growth& row) {
  for (const auto& [other, growth] : growths) {
    if (other == key || other.device != key.device || other.level != key.level) continue;
    if (growth.allocations == 0) continue;
    ++row.other_sites;
    if (growth.bytes != 0) ++row.other_sites_growing;
  }
}

// The stacks that allocated blocks of the framework, in the order of their last allocation, with
// the number of blocks that stayed: input of find_growth_causes().
std::vector<AllocatingStack> stacks_of(const ReportContext& context, const ReportProcess& process,
                                       std::size_t begin) {
  const Accounts& accounts = process.model().accounts();
  std::vector<std::uint32_t> groups;
  for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
    if (level_of(accounts.group(i).key.kind) == Level::kFramework) groups.push_back(i);
  }
  std::ranges::stable_sort(groups, {},
                           [&](std::uint32_t group) { return accounts.group(group).last_time; });
  std::vector<AllocatingStack> stacks;
  for (const std::uint32_t i : groups) {
    const std::vector<History::Stretch> stretches = accounts.history().stretches_of(i);
    const GrowthWindow window = window_of(stretches, begin);
    if (window.begin == window.end) continue;
    const std::string stack = context.identity_of(process, {i, false}).stack;
    if (stack.empty()) continue;
    AllocatingStack& one = stacks.emplace_back();
    one.device = context.device_id(process, accounts.group(i).key.device);
    one.stack = stack;
    one.kept = rise_of(stretches, window, &History::Stretch::low_count);
    for (std::size_t k = window.begin; k < window.end; ++k) {
      one.allocations += stretches[k].allocations;
    }
  }
  return stacks;
}

void add_steps(rows::Growth& row, const StepsPassed& passed) {
  if (passed.count == 0) return;
  row.steps = passed.count;
  row.bytes_per_step = static_cast<double>(row.bytes) / static_cast<double>(passed.count);
  row.by_repetition = passed.inferred;
  if (!passed.inferred) row.confidence = FindingConfidence::kInferred;
}

// Fills in the site, the process, the device and the times of a row of growth.
void add_site(rows::Growth& row, const ReportContext& context, const ReportProcess& process,
              const std::pair<const SiteKey, SiteHistory>& site, const GrowthWindow& window) {
  const auto& [key, history] = site;
  const std::vector<History::Flow>& flow = process.model().accounts().history().flow();
  row.process = process.id;
  row.device = context.device_id(process, key.device);
  row.level = key.level;
  row.live_bytes = history.stretches.back().low_bytes;
  row.origin = origin_with_stack(key.identity, history.stack);
  row.begin_ns = process.known_time_ns(flow[window.begin].end);
  row.end_ns = process.known_time_ns(flow[window.end - 1].end);
  row.freed = releases_row(context, process, &history.freed);
  row.has_backward = process.model().program().backward_passes() != 0;
  row.is_exact = !is_inexact(process, key.level);
}

}  // namespace

std::vector<rows::Growth> report_growth(const ReportContext& context,
                                        const std::vector<rows::Step>& steps,
                                        const Thresholds& thresholds) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Growth>& list) {
    const History& history = process.model().accounts().history();
    if (is_training_that_just_began(process, steps)) return;
    const std::size_t begin = warmup_end(history, thresholds);
    const std::map<SiteKey, SiteHistory> sites = sites_of(context, process, begin);
    const std::size_t end = allocating_end(history);
    GrowthBySite growths;
    for (const auto& [key, site] : sites) {
      growths[key] = growth_of(site.stretches, window_of(site.stretches, begin), end);
    }
    std::vector<rows::Growth> own;
    for (const auto& site : sites) {
      rows::Growth row = growths.at(site.first);
      if (row.bytes < thresholds.bytes(Threshold::kGrowthBytes) ||
          row.rises < thresholds.count(Threshold::kGrowthRises) || row.bytes == 0) {
        continue;
      }
      const GrowthWindow window = window_of(site.second.stretches, begin);
      add_site(row, context, process, site, window);
      count_others(site.first, growths, row);
      add_steps(row, steps_between(steps, process.id, row.begin_ns, row.end_ns));
      row.only_fills = !is_steady(history, window, thresholds);
      const std::uint64_t peak_bytes = peak_of(process.model().accounts(), site.first);
      if (row.only_fills && !is_significant(row, peak_bytes, thresholds)) continue;
      own.push_back(std::move(row));
    }
    sort_rows(own, &rows::Growth::bytes);
    std::vector<AllocatingStack> stacks;
    if (!own.empty()) stacks = stacks_of(context, process, begin);
    find_growth_causes(own, stacks, [&](const std::string& stack) {
      return context.names_of(process).frames_of(stack_id(stack));
    });
    std::move(own.begin(), own.end(), std::back_inserter(list));
  };
  return context.gather<rows::Growth>(add_rows);
}

void forecast(const std::vector<rows::Device>& devices, std::vector<rows::Growth>& growth) {
  for (rows::Growth& row : growth) {
    const bool is_on_device = row.level != Level::kHost && row.level != Level::kManaged;
    if (is_on_device) row.forecast_ns = forecast_ns(devices, row);
  }
}

}  // namespace gpumemtrace::analyzer
