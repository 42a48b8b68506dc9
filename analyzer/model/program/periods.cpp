// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/periods.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// Candidates are searched among the first allocations only, and among so many different ones.
constexpr std::uint64_t kSearchedAllocations = 200'000;
constexpr std::size_t kMaxSeen = 20'000;

// Equal gaps that make a candidate, and periods that a step must have been found in.
constexpr std::uint64_t kGapsOfCandidate = 3;
constexpr std::uint64_t kLeastPeriods = 6;

// A program makes steps most of the time; layers that are put on the device one after the other
// come in equal gaps, too, and then other work follows. At least one allocation of so many is a
// step's.
constexpr std::uint64_t kMostOtherAllocations = 4;

// A period of one allocation is no pattern.
constexpr std::uint64_t kShortestPeriod = 2;

std::uint64_t key_of(std::uint32_t site, std::uint64_t bytes) {
  const std::uint64_t key =
      (std::uint64_t{site} + 1) * 0x9E37'79B9'7F4A'7C15u ^ bytes * 0xff51afd7ed558ccdull;
  return key == 0 ? 1 : key;
}

}  // namespace

std::size_t Periods::add(std::uint32_t site, std::uint64_t bytes) {
  ++count_;
  const bool searching = count_ <= kSearchedAllocations;
  if (!searching && candidates_.empty()) return kNone;
  const std::uint64_t key = key_of(site, bytes);
  const std::size_t candidate = follow(key);
  if (searching && candidate == kNone) search(key);
  return candidate;
}

std::size_t Periods::follow(std::uint64_t key) {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    if (candidate.key != key) continue;
    ++(count_ - candidate.last == candidate.period ? candidate.equal : candidate.other);
    candidate.last = count_;
    return i;
  }
  return kNone;
}

void Periods::search(std::uint64_t key) {
  Seen* const seen = seen_.find(key);
  if (seen == nullptr) {
    if (seen_.size() < kMaxSeen) *seen_.add(key) = {key, count_, 0, 0};
    return;
  }
  const std::uint64_t gap = count_ - seen->last;
  seen->equal_gaps = gap == seen->gap ? seen->equal_gaps + 1 : 0;
  seen->gap = gap;
  seen->last = count_;
  if (gap >= kShortestPeriod && seen->equal_gaps >= kGapsOfCandidate) nominate(*seen);
}

// One candidate for each period is enough.
void Periods::nominate(const Seen& seen) {
  if (candidates_.size() == kMaxCandidates) return;
  if (std::ranges::find(candidates_, seen.gap, &Candidate::period) != candidates_.end()) return;
  candidates_.push_back({seen.key, seen.gap, count_, count_, 0, 0});
}

std::size_t Periods::best() const {
  std::size_t best = kNone;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    const std::uint64_t periods = candidate.equal + candidate.other;
    if (periods < kLeastPeriods || candidate.equal * 20 < periods * 19) continue;
    if (candidate.equal * candidate.period < count_ / kMostOtherAllocations) continue;
    if (best == kNone || candidate.period < candidates_[best].period) best = i;
  }
  return best;
}

}  // namespace gpumemtrace::analyzer
