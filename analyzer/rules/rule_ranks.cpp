// Ranks of one job that hold much more or much less than the others.
#include <algorithm>
#include <map>
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kLeastRanks = 2;

using BytesByPlace = std::map<std::string, std::uint64_t>;

// What one rank held on its devices: at each level the peak, and who held it.
struct RankMemory {
  const Json* process = nullptr;
  Json device = nullptr;  // with the largest peak
  std::uint64_t largest_bytes = 0;
  std::uint64_t peak_bytes = 0;  // driver and pools
  BytesByPlace places;           // of the innermost level that is known
};

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
      if (holder.at("site").is_object()) {
        memory.places[place_text(holder.at("site"))] += holder.at("bytes").get<std::uint64_t>();
      }
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

// The place whose bytes exceed those of the other ranks by most; empty where none does.
std::string largest_excess(const std::map<std::uint64_t, RankMemory>& ranks, std::uint64_t rank) {
  std::string worst;
  std::uint64_t most = 0;
  for (const auto& [place, bytes] : ranks.at(rank).places) {
    const std::uint64_t usual =
        median_of_others(ranks, rank, [&place = place](const RankMemory& memory) {
          const auto found = memory.places.find(place);
          return found == memory.places.end() ? 0 : found->second;
        });
    if (bytes <= usual + most) continue;
    most = bytes - usual;
    worst = place + ", by " + size_text(most);
  }
  return worst;
}

Finding finding_of(const std::map<std::uint64_t, RankMemory>& ranks, std::uint64_t rank,
                   std::uint64_t usual) {
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
  const std::string place = largest_excess(ranks, rank);
  if (!place.empty()) finding.detail += " It holds more at " + place + '.';
  finding.fix =
      "Divide among the ranks what this one alone holds" +
      (place.empty() ? std::string() : " at " + place.substr(0, place.find(", by "))) +
      ", or keep it on the host, or do it in smaller pieces: the largest rank decides what "
      "fits. Up to " +
      size_text(difference) + " would be saved on it (arithmetic).";
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
    findings.push_back(finding_of(ranks, rank, usual));
  }
}

}  // namespace gpumemtrace::analyzer
