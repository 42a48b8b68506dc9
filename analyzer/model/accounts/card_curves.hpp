// SPDX-License-Identifier: Apache-2.0
// The curves of one card over all processes of the job.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "analyzer/model/accounts/accounts.hpp"
#include "trace/ledger/card_curves.hpp"

namespace gpumemtrace::analyzer {

using ledger::Parts;

// A process that may use the card. All is borrowed.
struct CardMember : ledger::CardMember {
  PresentRecord* present = nullptr;
  Account* driver = nullptr;
  std::function<Parts(std::int32_t ordinal)> parts_now;

  [[nodiscard]] std::uint64_t now() const { return present->time; }
  void watch(PeakSnapshot& holders) const {
    if (driver != nullptr) driver->watchers.push_back(&holders);
  }
  [[nodiscard]] Parts hold(PeakSnapshot& holders) const {
    present->is_known_to_cards = false;
    const Parts parts = parts_now(ordinal);
    holders.set(present->time, parts.driver);
    return parts;
  }
};

template <class Element>
using CardList = std::deque<Element>;

using CurvesOfCard = ledger::CardCurves<CardMember, PeakSnapshot, CardList>;
using HeldOnCard = CurvesOfCard::Held;
using CardPoint = CurvesOfCard::Point;

// The highest point of a member as a checkpoint without curves tells it, with the samples before
// the cut.
struct GoneOnCard {
  HeldOnCard held;
  std::uint64_t time = 0;
  std::uint64_t total_bytes = 0;  // of the card; 0 = not known
  std::uint64_t most_in_use = 0;  // at any of the samples
  std::uint64_t most_of_process = 0;
  ledger::DriverSample nearest;  // to the highest point
  ledger::DriverSample last;
};

class CardCurves : public CurvesOfCard {
 public:
  // Both before the member's records behind a checkpoint.
  void restore_from_samples(std::size_t member, const GoneOnCard& gone);
  // `gone`: the curves of the member alone at the cut, when its calls held `called_bytes`. True if
  // the member is the only one: the curves go on as if nothing was gone. Else the memory of other
  // members is known at the member's samples only.
  [[nodiscard]] bool take_over(std::size_t member, const CardCurves& gone,
                               std::uint64_t called_bytes);

 private:
  void go_on(std::size_t member, const Curve& gone, Curve& curve);
  void add_bounds(std::size_t member, const Curve& gone, const ledger::CurveBounds& bounds,
                  Curve& curve);
};

}  // namespace gpumemtrace::analyzer
