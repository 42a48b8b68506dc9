// SPDX-License-Identifier: Apache-2.0
// Collects the facts that the rules for findings need and that no section of the report has.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct ChurnKey {
  std::int32_t device = kHostDevice;
  Kind kind = Kind::kDevice;
  Identity identity;
  friend auto operator<=>(const ChurnKey&, const ChurnKey&) = default;
};

// The sums of one site that churns. The stack of `row` is that of the group that allocated most.
struct ChurnSums {
  rows::ChurningSite row;
  std::uint64_t host_ticks = 0;
  std::uint64_t most_allocations = 0;
  CallSite freed_at;  // the first free in the group that allocated most
};

// True for memory whose functions call the driver every time. Stream-ordered memory and the
// framework's blocks come from pools and cost little.
bool goes_to_the_driver(Kind kind) {
  switch (level_of(kind)) {
    case Level::kDriver:
    case Level::kManaged:
    case Level::kHost:
      return kind != Kind::kGraph;
    default:
      return false;
  }
}

std::map<std::uint32_t, std::uint64_t> live_count_by_group(const ProcessModel& model) {
  std::map<std::uint32_t, std::uint64_t> count;
  for (const Account& account : model.accounts().accounts()) {
    for (const auto& [holder, tally] :
         sum_by_holder(model.memory().live_now(account.level, account.device))) {
      count[holder.group] += tally.count;
    }
  }
  return count;
}

// Sums allocations by site. Allocations count as after the warm-up if they are in the stretch of
// time with the number `begin` or a later one.
std::map<ChurnKey, ChurnSums> churn_by_site(const ReportContext& context,
                                            const ReportProcess& process, std::size_t begin) {
  const Accounts& accounts = process.model().accounts();
  std::map<std::uint32_t, std::uint64_t> live_count = live_count_by_group(process.model());
  std::map<ChurnKey, ChurnSums> sites;
  for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
    const Group& group = accounts.group(i);
    if (!goes_to_the_driver(group.key.kind)) continue;
    ChurnKey key{group.key.device, group.key.kind,
                 context.identity_of(process, {i, group.segments != 0})};
    // NCCL allocates the buffers of a communicator, not the program; communicators[] has their
    // sums.
    if (key.identity.owner == "nccl") continue;
    const std::string stack = take_stack(key.identity);
    ChurnSums& sums = sites[key];
    const std::vector<History::Stretch> stretches = accounts.history().stretches_of(i);
    for (std::size_t at = begin; at < stretches.size(); ++at) {
      sums.row.allocations_after_warmup += stretches[at].allocations;
      sums.row.stretches_after_warmup += stretches[at].allocations != 0 ? 1 : 0;
    }
    sums.row.allocations += group.allocations;
    sums.row.allocated_bytes += group.allocated_bytes;
    sums.row.live_count_at_end += live_count[i];
    sums.host_ticks += group.host_ticks;
    if (group.allocations > sums.most_allocations) {
      sums.most_allocations = group.allocations;
      sums.row.origin.stack = rows::text_or_none(stack);
      sums.freed_at = group.freed.first_at;
    }
  }
  return sites;
}

void observe_churn(const ReportContext& context, const ReportProcess& process,
                   const Thresholds& thresholds, std::vector<rows::ChurningSite>& list) {
  const std::size_t stretches = process.model().accounts().history().flow().size();
  const auto begin = static_cast<std::size_t>(thresholds[Threshold::kChurnWarmupShare] *
                                              static_cast<double>(stretches));
  for (const auto& [key, sums] : churn_by_site(context, process, begin)) {
    rows::ChurningSite row = sums.row;
    if (row.allocations_after_warmup < thresholds.count(Threshold::kChurnCount)) continue;
    add_place(row, context, process, {key.device, level_of(key.kind), key.identity});
    row.kind = key.kind;
    row.all_stretches_after_warmup = stretches - begin;
    row.time_in_calls_ns = process.duration_ns(sums.host_ticks);
    row.freed_at = location_of(context, process, sums.freed_at);
    list.push_back(std::move(row));
  }
}

// Sums, by site, the memory that Python's garbage collector freed. A site may have several stacks:
// the row shows the stack of the largest allocation.
void observe_collected(const ReportContext& context, const ReportProcess& process,
                       std::vector<rows::CollectedSite>& list) {
  std::map<SiteKey, rows::CollectedSite> sites;
  const Accounts& accounts = process.model().accounts();
  process.model().memory().collected.for_each([&](std::uint32_t index, const Collected& collected) {
    const Group& group = accounts.group(index);
    SiteKey key{group.key.device, level_of(group.key.kind),
                context.identity_of(process, {index, group.segments != 0})};
    const std::string stack = take_stack(key.identity);
    rows::CollectedSite& row = sites[key];
    row.count += collected.count;
    row.bytes += collected.bytes;
    row.collections = std::max(row.collections, collected.collections);
    if (collected.largest_bytes > row.largest_bytes) {
      row.largest_bytes = collected.largest_bytes;
      row.largest_time_ns = process.time_ns(collected.largest_time);
      row.origin.stack = rows::text_or_none(stack);
    }
  });
  for (auto& [key, row] : sites) {
    add_place(row, context, process, key);
    list.push_back(std::move(row));
  }
}

// Lists pinned memory whose size was rounded up. Copies show the size that the program needed, so
// memory that no copy used is left out.
void observe_rounded_pinned_memory(const ReportContext& context, const ReportProcess& process,
                                   std::vector<rows::RoundedPinnedMemory>& list) {
  const ProcessModel& model = process.model();
  std::map<SiteKey, rows::RoundedPinnedMemory> sites;
  for (const Account& account : model.accounts().accounts()) {
    if (account.level != Level::kHost || account.peak.is_restored()) continue;
    for (const ReleasedAllocation& life :
         model.holders().lives_at(account.peak, account.level, account.device)) {
      const std::uint64_t used_bytes = model.pinned_use().bytes_of(life.entry);
      const GroupKey& group = model.accounts().group(life.entry.group).key;
      if (used_bytes == 0 || group.kind != Kind::kPinned ||
          !std::has_single_bit(life.entry.bytes)) {
        continue;
      }
      SiteKey key{account.device, account.level,
                  context.identity_of(process, {life.entry.group, false})};
      const std::string stack = take_stack(key.identity);
      if (!framework_named(key.identity.owner).pins_powers_of_two) continue;
      rows::RoundedPinnedMemory& row = sites[key];
      ++row.count;
      row.bytes += life.entry.bytes;
      row.used_bytes += used_bytes;
      row.origin.stack = rows::text_or_none(stack);
    }
  }
  for (auto& [key, row] : sites) {
    add_place(row, context, process, key);
    list.push_back(std::move(row));
  }
}

void observe_gradients(const ReportContext& context, const ReportProcess& process,
                       std::vector<rows::KeptGradients>& list) {
  for (const Account& account : process.model().accounts().accounts()) {
    const TallyByIdentity holders =
        context.tally(process, process.model().holders().gradients_left_at_peak(account));
    if (holders.empty()) continue;
    auto row = context.row_on<rows::KeptGradients>(process, account.device);
    const TallyByIdentity::value_type* largest = &*holders.begin();
    for (const auto& holder : holders) {
      if (holder.second.bytes > largest->second.bytes) largest = &holder;
      row.count += holder.second.count;
      row.bytes += holder.second.bytes;
    }
    row.level = account.level;
    row.origin = origin_of(largest->first);
    row.peak_bytes = account.peak.bytes();
    row.peak_time_ns = process.time_ns(account.peak.time());
    row.phase = name_of(account.clock_at_peak.phase);
    list.push_back(std::move(row));
  }
}

// The median of the times between neighbouring events; 0 if there are fewer than two.
std::uint64_t median_gap(std::vector<std::uint64_t> times) {
  if (times.size() < 2) return 0;
  std::ranges::sort(times);
  std::adjacent_difference(times.begin(), times.end(), times.begin());
  const auto middle = times.begin() + 1 + static_cast<std::ptrdiff_t>(times.size() - 1) / 2;
  std::nth_element(times.begin() + 1, middle, times.end());
  return *middle;
}

struct GraphSums {
  std::uint64_t bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::vector<ReleasedAllocation> blocks;
  std::map<trace::StackId, std::uint64_t> by_stack;

  // True if the blocks are those of a graph of autograd: they were allocated one after the other,
  // layer by layer, and freed almost at once.
  [[nodiscard]] bool is_freed_in_burst() const {
    std::vector<std::uint64_t> births;
    std::vector<std::uint64_t> ends;
    for (const ReleasedAllocation& block : blocks) {
      births.push_back(block.entry.born);
      ends.push_back(block.end);
    }
    return median_gap(std::move(ends)) * 2 <= median_gap(std::move(births));
  }
};

// Sums the blocks of the forward phase at the peak that belong to a graph of autograd without a
// backward pass.
GraphSums sum_graphs(const ReportContext& context, const ReportProcess& process,
                     const Account& account) {
  const StackNames& names = context.names_of(process);
  const ProcessModel& model = process.model();
  GraphSums sums;
  for (const ReleasedAllocation& block :
       model.holders().lives_at(account.peak, account.level, account.device)) {
    const GroupKey& key = model.accounts().group(block.entry.group).key;
    const auto category = static_cast<Category>(block.use.category);
    if (key.phase != Phase::kForward) continue;
    // An activation that was freed within the forward phase waited for a backward pass that did not
    // come.
    const bool waited_in_vain =
        category == Category::kActivation && block.end != 0 &&
        static_cast<Confidence>(block.use.confidence) == Confidence::kHeuristic;
    if (category == Category::kActivation && !waited_in_vain) {
      sums.activation_bytes += block.entry.bytes;
    }
    if (category != Category::kTemporary && !waited_in_vain) continue;
    if (!names.is_under_autograd(key.site.stack)) continue;
    sums.bytes += block.entry.bytes;
    sums.blocks.push_back(block);
    sums.by_stack[key.site.stack] += block.entry.bytes;
  }
  return sums;
}

// The user's line that called the model, whichever lines inside the model allocated. If there are
// several such lines, the one with most bytes; nullopt if no stack has one.
std::optional<rows::Origin> models_caller(const ReportContext& context,
                                          const ReportProcess& process,
                                          const std::map<trace::StackId, std::uint64_t>& by_stack) {
  const StackNames& names = context.names_of(process);
  std::vector<std::pair<std::uint64_t, trace::StackId>> largest_first;
  for (const auto& [stack, bytes] : by_stack) largest_first.emplace_back(bytes, stack);
  std::sort(largest_first.rbegin(), largest_first.rend());
  // Bytes by the calling line; each key keeps the stack that has most bytes.
  std::map<Identity, std::uint64_t> callers;
  for (const auto& [bytes, stack] : largest_first) {
    const std::optional<StackFrame> caller = names.models_caller(stack);
    if (!caller) continue;
    Identity identity = context.identity_of_framework(process, stack);
    set_site(identity, *caller);
    callers[std::move(identity)] += bytes;
  }
  if (callers.empty()) return std::nullopt;
  const auto bytes_of = [](const auto& caller) { return caller.second; };
  return origin_of(std::ranges::max_element(callers, {}, bytes_of)->first);
}

void observe_graphs(const ReportContext& context, const ReportProcess& process,
                    std::vector<rows::GraphWithoutBackward>& list) {
  for (const Account& account : process.model().accounts().accounts()) {
    if (account.level != Level::kFramework || !account.peak.happened()) continue;
    const GraphSums sums = sum_graphs(context, process, account);
    std::optional<rows::Origin> caller = models_caller(context, process, sums.by_stack);
    if (!caller) continue;
    auto row = context.row_on<rows::GraphWithoutBackward>(process, account.device);
    row.level = account.level;
    row.origin = *std::move(caller);
    row.count = sums.blocks.size();
    row.bytes = sums.bytes;
    row.freed_in_burst = sums.is_freed_in_burst();
    for (const auto& [stack, bytes] : sums.by_stack)
      row.large_stacks += bytes * 100 >= sums.bytes ? 1 : 0;
    row.activation_bytes = sums.activation_bytes;
    row.peak_bytes = account.peak.bytes();
    row.peak_time_ns = process.time_ns(account.peak.time());
    list.push_back(std::move(row));
  }
}

void observe_instantiated(const ReportContext& context, const ReportProcess& process,
                          std::vector<rows::InstantiatedGraphs>& list) {
  for (const auto& [ordinal, graphs] : process.model().graph_use().devices()) {
    if (graphs.instantiated == 0) continue;
    const auto most = std::ranges::max_element(graphs.instantiated_at, {},
                                               [](const auto& site) { return site.second; });
    auto row = context.row_on<rows::InstantiatedGraphs>(process, ordinal);
    row.origin = origin_of(context.identity_of_site(process, most->first));
    row.instantiated = graphs.instantiated;
    row.at_origin = most->second;
    row.destroyed = graphs.destroyed;
    row.live_peak = graphs.live_peak;
    row.launches = graphs.launches;
    row.since_cut = graphs.since_cut;
    constexpr auto kGraphs = static_cast<std::size_t>(ledger::DriverCause::kGraphs);
    if (const auto* const use = process.model().driver_use().find(ordinal); use != nullptr) {
      row.sampled = use->at_peak.of_cause[kGraphs].calls;
      row.sampled_bytes = use->at_peak.of_cause[kGraphs].bytes;
    }
    list.push_back(std::move(row));
  }
}

void observe_contexts(const ReportContext& context, const ReportProcess& process,
                      std::vector<rows::OpenedContext>& list) {
  for (const ledger::Context& opened : process.model().memory().contexts.contexts()) {
    list.push_back({{process.id, context.device_id(process, opened.device)},
                    location_of(context, process, opened.opened_at)});
  }
}

// Lists the sites that allocate from the driver and its pools, in the order of their first
// allocations.
void observe_allocating(const ReportContext& context, const ReportProcess& process,
                        std::vector<rows::AllocatingSite>& list) {
  std::map<Identity, std::size_t> index;
  const Accounts& accounts = process.model().accounts();
  for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
    const Group& group = accounts.group(i);
    const Level level = level_of(group.key.kind);
    if (level != Level::kDriver && level != Level::kPool) continue;
    const Identity identity = context.identity_of(process, {i, group.segments != 0});
    std::optional<rows::Site> site = site_row(identity);
    if (!site) continue;
    const auto [found, is_new] = index.try_emplace(identity, list.size());
    if (is_new) list.push_back({process.id, *std::move(site), 0, std::nullopt, false});
    rows::AllocatingSite& row = list[found->second];
    row.allocations += group.allocations;
    const rows::OptionalLocation freed_at = location_of(context, process, group.freed.first_at);
    const bool is_elsewhere = row.freed_at && freed_at && row.freed_at->site != freed_at->site;
    row.is_freed_elsewhere =
        row.is_freed_elsewhere || is_elsewhere || is_freed_elsewhere(context, process, group.freed);
    if (!row.freed_at) row.freed_at = freed_at;
  }
}

// The rising request sizes that lead up to a failed request, such as when results are concatenated:
// the largest of those that rose at its line at least three times in a row, and that the failed
// request exceeds by at most twice their mean rise. nullptr if there are none.
const RisingSizes* sizes_before(const ReportContext& context, const ReportProcess& process,
                                const OomIncident& failure) {
  constexpr std::uint64_t kFewestRises = 3;
  // A failure is recorded with more frames of its stack than a block is, so lines are compared.
  const Identity asked = context.identity_of_site(process, failure.site);
  if (!asked.has_site || asked.line == 0) return nullptr;
  const Accounts& accounts = process.model().accounts();
  const RisingSizes* largest = nullptr;
  for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
    const Group& group = accounts.group(i);
    const RisingSizes& sizes = group.sizes;
    if (group.key.device != failure.device || level_of(group.key.kind) != failure.level) continue;
    if (sizes.rises < kFewestRises || group.last_time > failure.time) continue;
    const std::uint64_t rise = (sizes.last_bytes - sizes.first_bytes) / sizes.rises;
    if (sizes.last_bytes >= failure.requested_bytes ||
        failure.requested_bytes - sizes.last_bytes > 2 * rise) {
      continue;
    }
    const Identity identity = context.identity_of(process, {i, false});
    if (identity.file != asked.file || identity.line != asked.line) continue;
    if (largest == nullptr || sizes.last_bytes > largest->last_bytes) largest = &sizes;
  }
  return largest;
}

void observe_pile_ups(const ReportContext& context, const ReportProcess& process,
                      std::vector<rows::PileUp>& list) {
  for (const OomRow& failures : process.model().memory().out_of_memory.rows()) {
    if (failures.outcome == OomOutcome::kRecovered) continue;
    const RisingSizes* const sizes = sizes_before(context, process, failures.first);
    if (sizes == nullptr) continue;
    list.push_back({process.id, context.device_id(process, failures.first.device),
                    process.time_ns(failures.first.time), sizes->rises,
                    sizes->last_bytes - sizes->first_bytes, sizes->last_bytes});
  }
}

}  // namespace

rows::Observations observe(const ReportContext& context, const Thresholds& thresholds,
                           bool is_distributed) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Observations>& list) {
    rows::Observations& seen = list.emplace_back();
    observe_churn(context, process, thresholds, seen.churning);
    observe_collected(context, process, seen.collected);
    observe_gradients(context, process, seen.gradients);
    observe_graphs(context, process, seen.graphs);
    observe_instantiated(context, process, seen.instantiated);
    observe_rounded_pinned_memory(context, process, seen.pinned);
    observe_pile_ups(context, process, seen.pile_ups);
    if (!is_distributed) return;
    observe_contexts(context, process, seen.contexts);
    observe_allocating(context, process, seen.allocating);
  };
  rows::Observations all;
  for (rows::Observations& seen : context.gather<rows::Observations>(add_rows)) {
    const auto add = [&](auto list) { append(std::move(seen.*list), all.*list); };
    add(&rows::Observations::churning);
    add(&rows::Observations::collected);
    add(&rows::Observations::gradients);
    add(&rows::Observations::graphs);
    add(&rows::Observations::instantiated);
    add(&rows::Observations::pinned);
    add(&rows::Observations::pile_ups);
    add(&rows::Observations::contexts);
    add(&rows::Observations::allocating);
  }
  return all;
}

}  // namespace gpumemtrace::analyzer
