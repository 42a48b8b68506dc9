// SPDX-License-Identifier: Apache-2.0
// Finds communicators of NCCL that pile up.
#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Communicators that one site made on one device, and that were alive at the same time.
struct Pile {
  const rows::Communicator* first = nullptr;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

std::vector<Pile> piles_of(const std::vector<rows::Communicator>& rows) {
  std::vector<Pile> piles;
  for (const rows::Communicator& row : rows) {
    if (!row.id || !row.made_at || row.bytes_at_peak == 0) continue;
    const auto known = std::ranges::find_if(piles, [&](const Pile& pile) {
      return pile.first->process == row.process && pile.first->device == row.device &&
             pile.first->made_at == row.made_at;
    });
    Pile& pile = known == piles.end() ? piles.emplace_back() : *known;
    if (pile.first == nullptr) pile.first = &row;
    ++pile.count;
    pile.bytes += row.bytes_at_peak;
  }
  return piles;
}

rows::Finding finding_of(const Pile& pile) {
  rows::Finding finding = finding_at(Rule::kManyCommunicators, *pile.first);
  finding.level = Level::kDriver;
  finding.origin = {"nccl", pile.first->made_at, pile.first->stack};
  finding.bytes = pile.bytes;
  const std::uint64_t each = pile.bytes / pile.count;
  const std::uint64_t saved = pile.bytes - each;
  finding.saves = {saved, std::nullopt, rows::SavesBasis::kArithmetic};
  finding.evidence.add("communicators", pile.count);
  finding.evidence.add("bytes_of_each", each);
  fill_texts(sentences::kManyCommunicators,
             sentence_on(finding).set("communicators", pile.count).set("each_bytes", each),
             finding);
  return finding;
}

}  // namespace

void find_many_communicators(const RuleInput& input, Findings& findings) {
  for (const Pile& pile : piles_of(input.report.communicators)) {
    if (pile.count < input.thresholds.count(Threshold::kCommunicatorsCount)) continue;
    if (pile.bytes < input.thresholds.bytes(Threshold::kCommunicatorsBytes)) continue;
    findings.push_back(finding_of(pile));
  }
}

}  // namespace gpumemtrace::analyzer
