// SPDX-License-Identifier: Apache-2.0
// Finds ranks that hold much more or much less than their peers (ranks[].peer_group).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/rows/median.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"
#include "analyzer/text/rank_lists.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostPartsOfList = 6;

// Bytes of a rank's peak that belong to one site, layer and category.
struct HeldMemory {
  std::uint64_t bytes = 0;
  rows::OptionalLocation at;
  rows::OptionalText layers;
  Category category = Category::kUnknown;
};
using MemoryByKey = std::map<std::string, HeldMemory>;

// A site's key, the same in all ranks, which run one program.
std::string key_of(const rows::Site& site) {
  return site_text(site) + (site.offset ? '+' + std::to_string(*site.offset) : std::string());
}

// A rank's bytes at its peak, and their parts by site, layer and category.
struct Amount {
  std::uint64_t bytes = 0;
  MemoryByKey held;

  void add_holders(const rows::Peak& row) {
    for (const rows::Holder& holder : row.holders) {
      if (!holder.origin.site) continue;
      HeldMemory& memory = held[key_of(*holder.origin.site) + ' ' + holder.layers.value_or("") +
                                ' ' + std::string(name_of(holder.category))];
      memory.bytes += holder.bytes;
      if (memory.at) continue;
      memory.at = rows::CodeLocation{*holder.origin.site, holder.origin.stack};
      memory.layers = holder.layers;
      memory.category = holder.category;
    }
  }
};

// Ranks are compared by their framework's memory (kPeak), then by all memory from the driver
// (kDriver).
enum class Measure : std::uint8_t { kPeak, kDriver };

struct RankMemory {
  const rows::Rank* row = nullptr;
  // Memory of the framework if the rank uses one, else of the driver and its pools.
  Amount peak;
  Amount driver;

  [[nodiscard]] const Amount& amount(Measure measure) const {
    return measure == Measure::kPeak ? peak : driver;
  }
};

// Ranks that should hold as much memory as each other.
struct PeerGroup {
  std::vector<RankMemory> ranks;  // in ascending order of rank
  bool is_whole_job = false;
  bool ignores_expert_bytes = false;  // true if ranks with different experts are in the group

  [[nodiscard]] std::uint64_t bytes(const RankMemory& rank, Measure measure) const {
    const std::uint64_t bytes = rank.amount(measure).bytes;
    return bytes - (ignores_expert_bytes ? std::min(bytes, rank.row->expert_bytes) : 0);
  }
};

void add_peak(const rows::Peak& peak, RankMemory& memory) {
  const bool is_on_device = peak.level == Level::kDriver || peak.level == Level::kPool;
  if (is_on_device) {
    memory.driver.bytes += peak.bytes;
    memory.driver.add_holders(peak);
  } else if (peak.level == Level::kFramework && peak.device == memory.row->device) {
    memory.peak.bytes = peak.bytes;
    memory.peak.add_holders(peak);
  }
}

// True if the group's ranks hold different experts: two of them are in one expert group, or the
// expert groups are not known.
bool have_different_experts(const rows::Report& report, const PeerGroup& group) {
  std::set<std::uint64_t> peers;
  for (const RankMemory& memory : group.ranks) peers.insert(*memory.row->rank);
  bool are_experts_known = false;
  for (const rows::RankGroup& row : report.rank_groups) {
    if (row.kind != rows::GroupKind::kExpert) continue;
    are_experts_known = true;
    const auto is_peer = [&](std::uint64_t rank) { return peers.contains(rank); };
    if (std::ranges::count_if(row.ranks, is_peer) > 1) return true;
  }
  return !are_experts_known;
}

// The groups of ranks that the report compares (ranks[].peer_group), with the memory of each rank.
std::vector<PeerGroup> peer_groups_of(const rows::Report& report) {
  std::map<std::uint64_t, PeerGroup> groups;
  std::map<std::string, RankMemory> by_process;
  std::set<std::uint64_t> all_ranks;
  for (const rows::Rank& row : report.ranks) {
    if (row.rank) all_ranks.insert(*row.rank);
    if (row.rank && row.peer_group) by_process[row.process].row = &row;
  }
  for (const rows::Peak& peak : report.peak) {
    const auto found = by_process.find(peak.process);
    if (found != by_process.end()) add_peak(peak, found->second);
  }
  for (auto& [process, memory] : by_process) {
    if (memory.peak.bytes == 0) memory.peak = memory.driver;
    groups[*memory.row->peer_group].ranks.push_back(std::move(memory));
  }
  std::vector<PeerGroup> list;
  for (auto& [number, group] : groups) {
    std::ranges::sort(group.ranks, {}, [](const RankMemory& rank) { return rank.row->rank; });
    group.is_whole_job = group.ranks.size() == all_ranks.size();
    const bool has_experts = std::ranges::any_of(
        group.ranks, [](const RankMemory& rank) { return rank.row->expert_bytes != 0; });
    group.ignores_expert_bytes = has_experts && have_different_experts(report, group);
    list.push_back(std::move(group));
  }
  return list;
}

// The amounts that most ranks of a group hold.
struct UsualBytes {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  std::uint64_t median = 0;
};

bool is_significant(const Thresholds& thresholds, std::uint64_t difference, std::uint64_t usual) {
  return difference >= thresholds.bytes(Threshold::kRankBytes) &&
         static_cast<double>(difference) >=
             thresholds[Threshold::kRankShare] * static_cast<double>(usual);
}

// The largest run of amounts without a large gap, if more than half of the ranks are in it. Ranks
// that fall into bands, as stages of a pipeline do, have no usual amount. With two ranks the
// smaller amount is the usual one.
std::optional<UsualBytes> usual_bytes(const Thresholds& thresholds,
                                      std::vector<std::uint64_t> values) {
  std::ranges::sort(values);
  if (values.size() == 2) return UsualBytes{values[0], values[0], values[0]};
  std::size_t begin = 0;
  std::vector<std::uint64_t> usual;
  for (std::size_t i = 1; i <= values.size(); ++i) {
    const bool goes_on =
        i < values.size() && !is_significant(thresholds, values[i] - values[i - 1], values[i - 1]);
    if (goes_on) continue;
    if (i - begin > values.size() / 2) usual.assign(&values[begin], &values[begin] + (i - begin));
    begin = i;
  }
  if (usual.empty()) return std::nullopt;
  return UsualBytes{usual.front(), usual.back(), rows::lower_median(usual)};
}

// True if the rank differs from the usual amount significantly, and its distance to the usual ranks
// is more than 1.5 times the largest difference among these.
bool is_outlier(const Thresholds& thresholds, std::uint64_t bytes, const UsualBytes& usual) {
  const bool is_more = bytes > usual.median;
  const std::uint64_t difference = is_more ? bytes - usual.median : usual.median - bytes;
  if (!is_significant(thresholds, difference, usual.median)) return false;
  const std::uint64_t gap =
      bytes > usual.most ? bytes - usual.most : usual.least - std::min(bytes, usual.least);
  return 2 * gap > 3 * (usual.most - usual.least);
}

// The part of a rank's memory that exceeds the other ranks' median of the same part by most; 0
// bytes if no part does.
struct Excess {
  HeldMemory held;
  std::uint64_t bytes = 0;
  bool is_alone = false;  // no other rank holds memory of the site
};

Excess largest_excess(const PeerGroup& group, const RankMemory& rank, Measure measure) {
  Excess worst;
  for (const auto& [key, held] : rank.amount(measure).held) {
    std::vector<std::uint64_t> others;
    for (const RankMemory& other : group.ranks) {
      if (&other == &rank) continue;
      const MemoryByKey& memory = other.amount(measure).held;
      const auto found = memory.find(key);
      others.push_back(found == memory.end() ? 0 : found->second.bytes);
    }
    const std::uint64_t usual = rows::lower_median(std::move(others));
    if (held.bytes > usual + worst.bytes) worst = {held, held.bytes - usual};
  }
  if (worst.bytes == 0) return worst;
  worst.is_alone = std::ranges::none_of(group.ranks, [&](const RankMemory& other) {
    return &other != &rank && std::ranges::any_of(other.amount(measure).held, [&](const auto& row) {
      return row.second.at->site == worst.held.at->site;
    });
  });
  return worst;
}

// The allocations at one site from the driver and its pools, by one rank and by the others of its
// group, and the site that freed those of the rank.
struct AllocationsAtSite {
  std::uint64_t allocations = 0;
  std::uint64_t by_others = 0;
  rows::OptionalLocation freed_at;
  bool freed_elsewhere = false;  // true if not all was freed at `freed_at`
};

AllocationsAtSite made_at(const rows::Observations& seen, const PeerGroup& group,
                          const RankMemory& rank, const rows::Site& site) {
  std::set<std::string> processes;
  for (const RankMemory& one : group.ranks) processes.insert(one.row->process);
  const std::string key = key_of(site);
  AllocationsAtSite made;
  for (const rows::AllocatingSite& row : seen.allocating) {
    if (!processes.contains(row.process) || key_of(row.site) != key) continue;
    if (row.process != rank.row->process) {
      made.by_others += row.allocations;
      continue;
    }
    made.allocations += row.allocations;
    const bool is_elsewhere =
        made.freed_at && row.freed_at && made.freed_at->site != row.freed_at->site;
    made.freed_elsewhere = made.freed_elsewhere || row.is_freed_elsewhere || is_elsewhere;
    if (!made.freed_at) made.freed_at = row.freed_at;
  }
  return made;
}

// Advice on the site at which the rank holds more than its peers, which may be the only rank that
// allocates there. Adds the numbers behind it to `evidence`.
std::string advice_at(const RuleInput& input, const PeerGroup& group, const RankMemory& rank,
                      const Excess& excess, Sentence sentence, rows::Evidence& evidence) {
  const AllocationsAtSite made = made_at(input.seen, group, rank, excess.held.at->site);
  evidence.add("held_at", excess.held.at);
  evidence.add("freed_at", made.freed_at);
  evidence.add("allocations_there", made.allocations);
  evidence.add("allocations_of_others_there", made.by_others);
  if (made.by_others != 0 || !excess.is_alone) return sentence(sentences::kDivideEvenly);
  const std::string freed = location_text(made.freed_at);
  const std::string begin = made.freed_elsewhere ? "some freed at " : "freed at ";
  sentence.set("allocations", made.allocations).set("freed", freed.empty() ? freed : begin + freed);
  const std::string made_text =
      made.allocations == 0 ? std::string() : sentence(sentences::kMadeThere);
  return sentence.set("made", made_text)(sentences::kOnHost);
}

// The place of memory as text: "at train.py:30 (step) in Block > MLP (optimizer state)".
std::string where_text(const HeldMemory& held) {
  const std::string place = location_text(held.at);
  std::string text = place.empty() ? "" : "at " + place;
  if (held.layers) text += (text.empty() ? "in " : " in ") + *held.layers;
  std::string category(name_of(held.category));
  std::ranges::replace(category, '_', ' ');
  return category.empty() ? text : text + " (" + category + ")";
}

std::string others_text(const PeerGroup& group, const RankMemory& rank) {
  std::vector<std::uint64_t> others;
  for (const RankMemory& other : group.ranks) {
    if (&other != &rank) others.push_back(*other.row->rank);
  }
  return rank_list_text(others, kMostPartsOfList);
}

// A rank whose memory differs from that of its group.
struct Outlier {
  const PeerGroup& group;
  const RankMemory& rank;
  Measure measure = Measure::kPeak;
  std::uint64_t usual = 0;

  [[nodiscard]] std::uint64_t bytes() const { return group.bytes(rank, measure); }
};

Sentence sentence_of(const rows::Finding& finding, const Outlier& outlier, const Excess& excess) {
  const bool has_place = excess.bytes != 0;
  return sentence_on(finding)
      .set("rank", outlier.rank.row->rank)
      .set("whom",
           outlier.group.is_whole_job ? sentences::kTheOthers : sentences::kTheOthersOfGroup)
      .set("others", outlier.group.ranks.size() - 1)
      .set("group", others_text(outlier.group, outlier.rank))
      .set("memory",
           outlier.measure == Measure::kDriver ? sentences::kDriversMemory : std::string_view())
      .set("left_out",
           outlier.group.ignores_expert_bytes ? sentences::kExpertsLeftOut : std::string_view())
      .set("peak_bytes", outlier.rank.amount(outlier.measure).bytes)
      .set("usual_bytes", outlier.usual)
      .set("place", has_place ? location_text(excess.held.at) : std::string())
      .set("where", has_place ? where_text(excess.held) : std::string())
      .set("excess_bytes", excess.bytes);
}

rows::Finding finding_of(const RuleInput& input, const Outlier& outlier, const Excess& excess) {
  const RankMemory& rank = outlier.rank;
  const bool more = outlier.bytes() > outlier.usual;
  const std::uint64_t difference =
      more ? outlier.bytes() - outlier.usual : outlier.usual - outlier.bytes();
  rows::Finding finding = finding_of_rule(Rule::kRankImbalance);
  finding.process = rank.row->process;
  finding.device = rank.row->device;
  finding.level = Level::kDriver;
  finding.bytes = difference;
  if (more) finding.saves = {difference, std::nullopt, rows::SavesBasis::kArithmetic};
  finding.evidence.add("rank", rank.row->rank);
  finding.evidence.add("ranks", outlier.group.ranks.size());
  finding.evidence.add("peak_bytes", rank.amount(outlier.measure).bytes);
  finding.evidence.add("median_of_others_bytes", outlier.usual);
  if (excess.bytes != 0) {
    finding.evidence.add("excess_bytes", excess.bytes);
    finding.evidence.add("module", excess.held.layers);
    finding.evidence.add("category",
                         rows::text_or_none(std::string(name_of(excess.held.category))));
  }
  Sentence sentence = sentence_of(finding, outlier, excess);
  if (more) {
    sentence.set("advice", excess.bytes != 0 ? advice_at(input, outlier.group, rank, excess,
                                                         sentence, finding.evidence)
                                             : std::string(sentences::kDivideAll));
  }
  fill_texts(more ? sentences::kHoldsMore : sentences::kHoldsLess, sentence, finding);
  return finding;
}

// True if the memory of the group's largest rank ran out, or nearly. As long as all memory fits, a
// difference between ranks costs nothing.
bool is_near_limit(const RuleInput& input, const PeerGroup& group) {
  const rows::Report& report = input.report;
  const auto driver_bytes = [](const RankMemory& rank) { return rank.driver.bytes; };
  const rows::Rank& largest = *std::ranges::max_element(group.ranks, {}, driver_bytes)->row;
  if (std::ranges::count(report.oom, largest.process, &rows::Oom::process) != 0) return true;
  const rows::Device* const device = rows::find_device(report.devices, largest.device);
  return device != nullptr && device->total_bytes && device->physical_peak &&
         static_cast<double>(device->physical_peak->bytes) >=
             input.thresholds[Threshold::kRankFullShare] *
                 static_cast<double>(*device->total_bytes);
}

// If growth at the site of the excess explains at least half of what the rank holds more, names the
// growth as the cause of the imbalance, and adds the imbalance's title to the finding on growth.
void join_growth(const Excess& excess, rows::Finding& imbalance_finding, Findings& findings) {
  const auto growth = std::ranges::find_if(findings, [&](const auto& finding) {
    return finding.rule == Rule::kGrowth && finding.process == imbalance_finding.process &&
           excess.held.at && finding.origin.site == excess.held.at->site &&
           finding.bytes.value_or(0) * 2 >= *imbalance_finding.bytes;
  });
  if (growth == findings.end()) return;
  growth->detail += ' ' + imbalance_finding.title + '.';
  imbalance_finding.same_cause = fingerprint_of(*growth);
}

// Finds the outliers of a group, and adds their processes to `named`, so that each is named once.
void find_outliers(const RuleInput& input, const PeerGroup& group, Measure measure,
                   std::set<std::string>& named, Findings& findings) {
  std::vector<std::uint64_t> values;
  for (const RankMemory& rank : group.ranks) values.push_back(group.bytes(rank, measure));
  const auto usual = usual_bytes(input.thresholds, std::move(values));
  if (!usual) return;
  for (const RankMemory& rank : group.ranks) {
    const Outlier outlier{group, rank, measure, usual->median};
    if (!is_outlier(input.thresholds, outlier.bytes(), *usual)) continue;
    if (!named.insert(rank.row->process).second) continue;
    const bool more = outlier.bytes() > usual->median;
    const Excess excess = more ? largest_excess(group, rank, measure) : Excess();
    rows::Finding finding = finding_of(input, outlier, excess);
    if (!is_near_limit(input, group)) finding.severity = Severity::kInfo;
    join_growth(excess, finding, findings);
    findings.push_back(std::move(finding));
  }
}

// Names the rank that will fill its device first, in the finding on that rank's growth.
void name_first_to_fill(const rows::Report& report, Findings& findings) {
  const rows::Rank* first = nullptr;
  std::size_t ranks = 0;
  for (const rows::Rank& row : report.ranks) {
    if (!row.rank) continue;
    ++ranks;
    if (!row.steps_until_full) continue;
    if (first == nullptr || *row.steps_until_full < *first->steps_until_full) first = &row;
  }
  if (first == nullptr || ranks < 2) return;
  const auto growth = std::ranges::find_if(findings, [&](const rows::Finding& finding) {
    return finding.rule == Rule::kGrowth && finding.process == first->process &&
           finding.device == first->device;
  });
  if (growth == findings.end()) return;
  const auto steps = static_cast<std::uint64_t>(std::llround(*first->steps_until_full));
  growth->evidence.add("first_rank_to_fill", first->rank);
  growth->evidence.add("steps_until_full", steps);
  growth->detail +=
      Sentence().set("rank", first->rank).set("steps", steps)(sentences::kFirstToFill);
}

}  // namespace

void find_rank_differences(const RuleInput& input, Findings& findings) {
  std::set<std::string> named;
  for (const PeerGroup& group : peer_groups_of(input.report)) {
    for (const Measure measure : {Measure::kPeak, Measure::kDriver}) {
      find_outliers(input, group, measure, named, findings);
    }
  }
  name_first_to_fill(input.report, findings);
}

}  // namespace gpumemtrace::analyzer
