// SPDX-License-Identifier: Apache-2.0
// The curves of one card over all processes of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "analyzer/rows/card_history.hpp"
#include "trace/ledger/card_curves.hpp"

namespace gpumemtrace::analyzer {

using ledger::Parts;

// Tells who held a process's memory at a point of a curve: the point's owners if it lies before a
// checkpoint's cut, else the owners after so many of the history's changes.
struct OwnersAt {
  const rows::CardPrefixPoint* before_cut = nullptr;
  std::size_t changes = 0;
};

// A process that may use the card, at the present event of its history, which is borrowed.
struct CardMember : ledger::CardMember {
  const rows::CardHistory* history = nullptr;
  std::size_t changes = 0;  // so many have come
  std::uint64_t time = 0;   // as in CardPoint

  [[nodiscard]] std::uint64_t now() const { return time; }
  // Without the framework's blocks and the memory in use in pools.
  [[nodiscard]] Parts hold(OwnersAt& owners) const {
    owners = {nullptr, changes};
    Parts parts;
    parts.time = time;
    if (changes == 0) return parts;
    const rows::CardChange& present = history->changes[changes - 1];
    parts.pool_reserved = present.pool_reserved;
    parts.driver = present.allocated_bytes;
    return parts;
  }
};

template <class Element>
using CardList = std::deque<Element>;

using CurvesOfCard = ledger::CardCurves<CardMember, OwnersAt, CardList>;
using HeldOnCard = CurvesOfCard::Held;
// Its time is that of the process's event in nanoseconds, plus 1; 0 = there is none.
using CardPoint = CurvesOfCard::Point;

[[nodiscard]] constexpr std::uint64_t time_of_point(std::uint64_t time_ns) { return time_ns + 1; }
[[nodiscard]] constexpr std::uint64_t time_of_point(const rows::OptionalNumber& time_ns) {
  return time_ns ? time_of_point(*time_ns) : 0;
}

class CardCurves : public CurvesOfCard {
 public:
  // The member's next event has this time.
  void begin_event(std::size_t member, std::uint64_t time_ns) {
    members_[member].time = time_of_point(time_ns);
  }
  // The next change of the member's history has come.
  void take_change(std::size_t member);
  // Both before the member's changes behind a checkpoint.
  void restore_from_samples(std::size_t member, const rows::CardSummary& gone);
  // `prefix`: the curves of the member alone at the cut. True if the member is the only one: the
  // curves go on as if nothing was gone. Else the memory of other members is known at the member's
  // samples only.
  [[nodiscard]] bool take_over(std::size_t member, const rows::CardPrefix& prefix);

 private:
  void go_on(std::size_t member, const Curve& gone, Curve& curve);
  void add_bounds(std::size_t member, const Curve& gone, const ledger::CurveBounds& bounds,
                  Curve& curve);
};

}  // namespace gpumemtrace::analyzer
