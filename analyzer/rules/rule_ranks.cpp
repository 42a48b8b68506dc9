// SPDX-License-Identifier: Apache-2.0
// Ranks of one job that hold much more or much less than the others.
#include <algorithm>
#include <map>
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kLeastRanks = 2;

// The bytes of a rank at one site at its peak.
struct SiteMemory {
  std::uint64_t bytes = 0;
  rows::OptionalLocation at;
};
using MemoryBySite = std::map<std::string, SiteMemory>;

// The bytes of one rank on its devices: at each level the peak, and its holders.
struct RankMemory {
  const rows::Process* process = nullptr;
  rows::OptionalText device;  // with the largest peak
  std::uint64_t largest_bytes = 0;
  std::uint64_t peak_bytes = 0;  // driver and pools
  MemoryBySite sites;            // of the innermost level that is known
};
using MemoryByRank = std::map<std::uint64_t, RankMemory>;

// A key that the same site has in all ranks, which run one program.
std::string key_of(const rows::Site& site) {
  return site_text(site) + (site.offset ? '+' + std::to_string(*site.offset) : std::string());
}

void add_peak(RankMemory& memory, const rows::Peak& row) {
  memory.peak_bytes += row.bytes;
  if (row.bytes > memory.largest_bytes) memory.device = row.device;
  memory.largest_bytes = std::max(memory.largest_bytes, row.bytes);
  for (const rows::Holder& holder : row.holders) {
    if (!holder.origin.site) continue;
    SiteMemory& site = memory.sites[key_of(*holder.origin.site)];
    site.bytes += holder.bytes;
    if (!site.at) site.at = rows::CodeLocation{*holder.origin.site, holder.origin.stack};
  }
}

MemoryByRank memory_by_rank(const rows::Report& report) {
  MemoryByRank ranks;
  std::map<std::string, RankMemory*> by_process;
  for (const rows::Process& process : report.processes) {
    if (!process.rank) continue;
    RankMemory& memory = ranks[*process.rank];
    if (memory.process != nullptr) continue;  // a rank's child
    memory.process = &process;
    by_process[process.id] = &memory;
  }
  for (const rows::Peak& row : report.peak) {
    const auto found = by_process.find(row.process);
    const bool on_device = row.level == Level::kDriver || row.level == Level::kPool;
    if (found != by_process.end() && on_device) add_peak(*found->second, row);
  }
  return ranks;
}

// If their number is even, the lower one of the two in the middle.
std::uint64_t median_of(std::vector<std::uint64_t> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

// The device decides which sizes fit.
const RankMemory& largest_of(const MemoryByRank& ranks) {
  const auto peak_of = [](const auto& rank) { return rank.second.peak_bytes; };
  return std::ranges::max_element(ranks, {}, peak_of)->second;
}

template <class Value>
std::uint64_t median_of_others(const MemoryByRank& ranks, std::uint64_t rank, Value&& value_of) {
  std::vector<std::uint64_t> values;
  for (const auto& [other, memory] : ranks) {
    if (other != rank) values.push_back(value_of(memory));
  }
  return median_of(std::move(values));
}

// The site whose bytes exceed those of the other ranks by most; no bytes if none does.
struct Excess {
  std::string key;
  rows::OptionalLocation at;
  std::uint64_t bytes = 0;

  [[nodiscard]] std::string place() const { return location_text(at); }
};

Excess largest_excess(const MemoryByRank& ranks, std::uint64_t rank) {
  Excess worst;
  for (const auto& [key, held] : ranks.at(rank).sites) {
    const std::uint64_t usual =
        median_of_others(ranks, rank, [&key = key](const RankMemory& memory) {
          const auto found = memory.sites.find(key);
          return found == memory.sites.end() ? 0 : found->second.bytes;
        });
    if (held.bytes > usual + worst.bytes) worst = {key, held.at, held.bytes - usual};
  }
  return worst;
}

// All that a site allocated from the driver and its pools over the run, and the site of its frees.
struct Made {
  std::uint64_t allocations = 0;
  rows::OptionalLocation freed_at;
  bool freed_elsewhere = false;  // not all of it there
};

Made made_at(const rows::Observations& seen, const std::string& process, const std::string& key) {
  Made made;
  for (const rows::AllocatingSite& row : seen.allocating) {
    if (row.process != process || key_of(row.site) != key) continue;
    made.allocations += row.allocations;
    const bool is_elsewhere =
        made.freed_at && row.freed_at && made.freed_at->site != row.freed_at->site;
    made.freed_elsewhere = made.freed_elsewhere || row.is_freed_elsewhere || is_elsewhere;
    if (!made.freed_at) made.freed_at = row.freed_at;
  }
  return made;
}

// Advice on the site where the rank holds more: it may be the only rank that allocates there.
std::string advice_at(const RuleInput& input, const MemoryByRank& ranks, std::uint64_t rank,
                      const Excess& excess, Sentence sentence, rows::Evidence& evidence) {
  const Made made = made_at(input.seen, ranks.at(rank).process->id, excess.key);
  std::uint64_t made_by_others = 0;
  for (const auto& [other, memory] : ranks) {
    if (other == rank) continue;
    made_by_others += made_at(input.seen, memory.process->id, excess.key).allocations;
  }
  evidence.add("held_at", excess.at);
  evidence.add("freed_at", made.freed_at);
  evidence.add("allocations_there", made.allocations);
  evidence.add("allocations_of_others_there", made_by_others);
  if (made_by_others != 0) return sentence(sentences::kDivideEvenly);
  const std::string freed = location_text(made.freed_at);
  const std::string begin = made.freed_elsewhere ? "some freed at " : "freed at ";
  return sentence.set("allocations", made.allocations)
      .set("freed", freed.empty() ? freed : begin + freed)(sentences::kOnHost);
}

rows::Finding finding_of(const RuleInput& input, const MemoryByRank& ranks, std::uint64_t rank,
                         std::uint64_t usual, const Excess& excess) {
  const RankMemory& memory = ranks.at(rank);
  const bool more = memory.peak_bytes > usual;
  const std::uint64_t difference = more ? memory.peak_bytes - usual : usual - memory.peak_bytes;
  rows::Finding finding = finding_of_rule(Rule::kRankImbalance);
  finding.process = memory.process->id;
  finding.device = memory.device;
  finding.level = Level::kDriver;
  finding.bytes = difference;
  if (more) finding.saves = {difference, std::nullopt, rows::SavesBasis::kArithmetic};
  finding.evidence.add("rank", rank);
  finding.evidence.add("ranks", ranks.size());
  finding.evidence.add("peak_bytes", memory.peak_bytes);
  finding.evidence.add("median_of_others_bytes", usual);
  const bool has_place = excess.bytes != 0;
  Sentence sentence = sentence_on(finding);
  sentence.set("rank", rank)
      .set("others", ranks.size() - 1)
      .set("peak_bytes", memory.peak_bytes)
      .set("usual_bytes", usual)
      .set("place", has_place ? excess.place() : std::string())
      .set("excess_bytes", excess.bytes);
  if (more) {
    sentence.set("advice", has_place
                               ? advice_at(input, ranks, rank, excess, sentence, finding.evidence)
                               : std::string(sentences::kDivideAll));
  }
  say(more ? sentences::kHoldsMore : sentences::kHoldsLess, sentence, finding);
  return finding;
}

// True if the rank's memory ran out, or nearly: stages of a pipeline and a rank that also evaluates
// differ on purpose, and as long as all fits that costs nothing.
bool is_near_limit(const RuleInput& input, const RankMemory& memory) {
  const rows::Report& report = input.report;
  if (std::ranges::count(report.oom, memory.process->id, &rows::Oom::process) != 0) return true;
  const rows::Device* const device = rows::find_device(report.devices, memory.device);
  return device != nullptr && device->total_bytes && device->physical_peak &&
         static_cast<double>(device->physical_peak->bytes) >=
             input.thresholds[Threshold::kRankFullShare] *
                 static_cast<double>(*device->total_bytes);
}

// Growth on one rank alone is the reason why that rank holds more: one fault, which the growth
// describes.
void join_growth(const Excess& excess, rows::Finding& more, Findings& findings) {
  const auto growth = std::ranges::find_if(findings, [&](const auto& finding) {
    return finding.rule == Rule::kGrowth && finding.process == more.process && excess.at &&
           finding.origin.site == excess.at->site && finding.bytes.value_or(0) * 2 >= *more.bytes;
  });
  if (growth == findings.end()) return;
  growth->detail += ' ' + more.title + '.';
  more.same_cause = fingerprint_of(*growth);
}

}  // namespace

// With two ranks it is not known which is the usual one: the larger is named.
void find_rank_differences(const RuleInput& input, Findings& findings) {
  const MemoryByRank ranks = memory_by_rank(input.report);
  if (ranks.size() < kLeastRanks) return;
  for (const auto& [rank, memory] : ranks) {
    const std::uint64_t usual =
        median_of_others(ranks, rank, [](const RankMemory& other) { return other.peak_bytes; });
    const bool more = memory.peak_bytes > usual;
    const std::uint64_t difference = more ? memory.peak_bytes - usual : usual - memory.peak_bytes;
    if (!more && ranks.size() == kLeastRanks) continue;
    if (difference < input.thresholds.bytes(Threshold::kRankBytes)) continue;
    if (static_cast<double>(difference) <
        input.thresholds[Threshold::kRankShare] * static_cast<double>(usual)) {
      continue;
    }
    const Excess excess = more ? largest_excess(ranks, rank) : Excess();
    rows::Finding finding = finding_of(input, ranks, rank, usual, excess);
    if (!is_near_limit(input, largest_of(ranks))) finding.severity = Severity::kInfo;
    join_growth(excess, finding, findings);
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
