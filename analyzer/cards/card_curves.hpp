// SPDX-License-Identifier: Apache-2.0
// The curves of the memory in use on one card, over all processes of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "analyzer/rows/card_history.hpp"
#include "trace/ledger/card_curves.hpp"

namespace gpumemtrace::analyzer {

using ledger::Parts;

// Tells who held a process's memory at a point of a curve: the owners in `before_cut` if the point
// lies before a checkpoint, else the owners after the first `changes` changes of the process's
// history.
struct OwnersAt {
  const rows::CardPrefixPoint* before_cut = nullptr;
  std::size_t changes = 0;
};

// A process that may use the card, with the reading position in its history, which is not owned.
struct CardMember : ledger::CardMember {
  const rows::CardHistory* history = nullptr;
  std::size_t changes = 0;  // number of changes of the history that were taken
  std::uint64_t time = 0;   // the time of the present event, as in CardPoint

  [[nodiscard]] std::uint64_t now() const { return time; }
  // The bytes that the process holds at present. The framework's blocks and the memory in use in
  // pools are left out.
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
// A point of a card's curve. Its time is that of the process's event in nanoseconds, plus 1; 0 =
// there is no point.
using CardPoint = CurvesOfCard::Point;

[[nodiscard]] constexpr std::uint64_t time_of_point(std::uint64_t time_ns) { return time_ns + 1; }
[[nodiscard]] constexpr std::uint64_t time_of_point(const rows::OptionalNumber& time_ns) {
  return time_ns ? time_of_point(*time_ns) : 0;
}

class CardCurves : public CurvesOfCard {
 public:
  // Sets the time of the member's next event.
  void begin_event(std::size_t member, std::uint64_t time_ns) {
    members_[member].time = time_of_point(time_ns);
  }
  // Takes the next change of the member's history.
  void take_change(std::size_t member);
  // restore_from_samples() and take_over() must be called before the member's changes after the
  // checkpoint are taken.
  void restore_from_samples(std::size_t member, const rows::CardSummary& summary);
  // Takes over `prefix`, the curves that the member's process computed alone before a checkpoint.
  // True if the curves are those that the dropped records would have given: the member is the only
  // one, and the checkpoint knew all memory of graphs. Other members' memory is known only at the
  // member's samples.
  [[nodiscard]] bool take_over(std::size_t member, const rows::CardPrefix& prefix);

 private:
  void copy_curve_state(std::size_t member, const Curve& before_checkpoint, Curve& curve);
  void add_earlier_maximum(std::size_t member, const Curve& before_checkpoint,
                           const ledger::CurveBounds& bounds, Curve& curve);
};

}  // namespace gpumemtrace::analyzer
