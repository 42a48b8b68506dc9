// SPDX-License-Identifier: Apache-2.0
// Ranks of one job that hold much more or much less than the others.
#include <algorithm>
#include <map>
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kLeastRanks = 2;

// What a rank held at one place at its peak.
struct PlaceMemory {
  std::uint64_t bytes = 0;
  Json at = nullptr;  // {"site", "stack"}
};
using MemoryByPlace = std::map<std::string, PlaceMemory>;

// What one rank held on its devices: at each level the peak, and who held it.
struct RankMemory {
  const Json* process = nullptr;
  Json device = nullptr;  // with the largest peak
  std::uint64_t largest_bytes = 0;
  std::uint64_t peak_bytes = 0;  // driver and pools
  MemoryByPlace places;          // of the innermost level that is known
};

// The same for the same place in all ranks, which run one program.
std::string key_of_place(const Json& site) {
  const Json& offset = site.at("offset");
  return place_text(site) + (offset.is_number() ? '+' + offset.dump() : std::string());
}

std::map<std::uint64_t, RankMemory> memory_by_rank(const Json& report) {
  std::map<std::uint64_t, RankMemory> ranks;
  std::map<std::string, RankMemory*> by_process;
  for (const Json& process : report.at("processes")) {
    if (!process.at("rank").is_number()) continue;
    RankMemory& memory = ranks[process.at("rank").get<std::uint64_t>()];
    if (memory.process != nullptr) continue;  // a rank's child
    memory.process = &process;
    by_process[process.at("id")] = &memory;
  }
  for (const Json& row : report.at("peak")) {
    const auto found = by_process.find(row.at("process"));
    const bool on_device = row.at("level") == "driver" || row.at("level") == "pool";
    if (found == by_process.end() || !on_device) continue;
    RankMemory& memory = *found->second;
    const auto bytes = row.at("bytes").get<std::uint64_t>();
    memory.peak_bytes += bytes;
    if (bytes > memory.largest_bytes) memory.device = row.at("device");
    memory.largest_bytes = std::max(memory.largest_bytes, bytes);
    for (const Json& holder : row.at("holders")) {
      if (!holder.at("site").is_object()) continue;
      PlaceMemory& place = memory.places[key_of_place(holder.at("site"))];
      place.bytes += holder.at("bytes").get<std::uint64_t>();
      if (place.at.is_null())
        place.at = {{"site", holder.at("site")}, {"stack", holder.at("stack")}};
    }
  }
  return ranks;
}

// Of an even number the lower one of the two in the middle.
std::uint64_t median_of(std::vector<std::uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

template <class Value>
std::uint64_t median_of_others(const std::map<std::uint64_t, RankMemory>& ranks, std::uint64_t rank,
                               Value&& value_of) {
  std::vector<std::uint64_t> values;
  for (const auto& [other, memory] : ranks) {
    if (other != rank) values.push_back(value_of(memory));
  }
  return median_of(std::move(values));
}

// The place whose bytes exceed those of the other ranks by most; no bytes where none does.
struct Excess {
  std::string key;
  std::string place;
  Json at = nullptr;
  std::uint64_t bytes = 0;
};

Excess largest_excess(const std::map<std::uint64_t, RankMemory>& ranks, std::uint64_t rank) {
  Excess worst;
  for (const auto& [key, held] : ranks.at(rank).places) {
    const std::uint64_t usual =
        median_of_others(ranks, rank, [&key = key](const RankMemory& memory) {
          const auto found = memory.places.find(key);
          return found == memory.places.end() ? 0 : found->second.bytes;
        });
    if (held.bytes > usual + worst.bytes) {
      worst = {key, place_text(held.at.at("site")), held.at, held.bytes - usual};
    }
  }
  return worst;
}

// All that a place allocated from the driver and its pools over the run, and where it was freed.
struct Made {
  std::uint64_t allocations = 0;
  Json freed_at = nullptr;
  bool freed_elsewhere = false;  // not all of it there
};

Made made_at(const ReportContext& context, const Json& process_id, const std::string& key) {
  Made made;
  for (const ReportProcess& process : context.processes()) {
    if (process.id != process_id) continue;
    const Accounts& accounts = process.model().accounts();
    for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
      const Group& group = accounts.group(i);
      const Level level = level_of(group.key.kind);
      if (level != Level::kDriver && level != Level::kPool) continue;
      const Identity identity = context.identity_of(process, {i, group.segments != 0});
      if (!identity.has_site || key_of_place(site_json(identity)) != key) continue;
      made.allocations += group.allocations;
      made.freed_elsewhere |= group.freed.has_other_sites || !made.freed_at.is_null();
      if (made.freed_at.is_null())
        made.freed_at = place_json(context, process, group.freed.first_at);
    }
  }
  return made;
}

// What to do about the place where the rank holds more: it may be the only one that allocates
// there.
std::string fix_at(const RuleInput& input, const std::map<std::uint64_t, RankMemory>& ranks,
                   std::uint64_t rank, const Excess& excess, Finding& finding) {
  const Made made = made_at(input.context, finding.process, excess.key);
  std::uint64_t made_by_others = 0;
  for (const auto& [other, memory] : ranks) {
    if (other == rank) continue;
    made_by_others += made_at(input.context, memory.process->at("id"), excess.key).allocations;
  }
  finding.evidence["held_at"] = excess.at;
  finding.evidence["freed_at"] = made.freed_at;
  finding.evidence["allocations_there"] = made.allocations;
  finding.evidence["allocations_of_others_there"] = made_by_others;
  const std::string name = "rank " + std::to_string(rank);
  if (made_by_others != 0) {
    return "Divide evenly what " + excess.place + " allocates: " + name + " holds " +
           size_text(excess.bytes) + " more there than the others do. ";
  }
  const std::string freed = second_place_text(finding.evidence, "freed_at");
  return "Let " + excess.place + " allocate on the host, or in smaller pieces: " + name +
         " alone allocates there (" + count_text(made.allocations, "time", "times") +
         (freed.empty() ? freed
                        : (made.freed_elsewhere ? ", some freed at " : ", freed at ") + freed) +
         "), and the GPUs of the others do without it. ";
}

Finding finding_of(const RuleInput& input, const std::map<std::uint64_t, RankMemory>& ranks,
                   std::uint64_t rank, std::uint64_t usual) {
  const RankMemory& memory = ranks.at(rank);
  const bool more = memory.peak_bytes > usual;
  const std::uint64_t difference = more ? memory.peak_bytes - usual : usual - memory.peak_bytes;
  const std::string name = "Rank " + std::to_string(rank);
  Finding finding = finding_at(
      Rule::kRankImbalance,
      {{"process", memory.process->at("id")}, {"device", memory.device}, {"level", "driver"}});
  finding.bytes = difference;
  finding.evidence = {{"rank", rank},
                      {"ranks", ranks.size()},
                      {"peak_bytes", memory.peak_bytes},
                      {"median_of_others_bytes", usual}};
  finding.title = name + " peaked at " + size_text(memory.peak_bytes) + ", " +
                  size_text(difference) + (more ? " more" : " less") + " than the others";
  finding.detail = "The other ranks (" + std::to_string(ranks.size() - 1) + ") have a median of " +
                   size_text(usual) + '.';
  if (!more) {
    finding.fix = "See whether the rank ended early, or divide the work evenly: the others need " +
                  size_text(difference) + " more than this one (arithmetic).";
    return finding;
  }
  const Excess excess = largest_excess(ranks, rank);
  if (excess.bytes == 0) {
    finding.fix = "Divide among the ranks what this one alone holds. ";
  } else {
    finding.detail += " It holds more at " + excess.place + ", by " + size_text(excess.bytes) + '.';
    finding.fix = fix_at(input, ranks, rank, excess, finding);
  }
  finding.fix += "The largest rank decides what fits: up to " + size_text(difference) +
                 " would be saved on it (arithmetic).";
  return finding;
}

}  // namespace

// Of two ranks nobody knows which is the usual one: the larger is told.
void find_rank_differences(const RuleInput& input, Findings& findings) {
  const std::map<std::uint64_t, RankMemory> ranks = memory_by_rank(input.report);
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
    findings.push_back(finding_of(input, ranks, rank, usual));
  }
}

}  // namespace gpumemtrace::analyzer
