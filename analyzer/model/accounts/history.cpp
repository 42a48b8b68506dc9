// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/history.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

History::Stretch join(const History::Stretch& first, const History::Stretch& second) {
  return {std::min(first.low_bytes, second.low_bytes), std::min(first.low_count, second.low_count),
          first.allocations + second.allocations, first.frees + second.frees};
}

}  // namespace

// Begins a stretch of the process; if there are kMaxStretches already, joins them in pairs first.
// Each has a partner, because kMaxStretches is even.
void History::begin_stretch() {
  if (flow_.size() == kMaxStretches) {
    std::vector<Flow> joined;
    for (std::size_t i = 0; i < flow_.size(); i += 2) {
      joined.push_back({flow_[i].allocations + flow_[i + 1].allocations,
                        flow_[i].frees + flow_[i + 1].frees, flow_[i + 1].end});
    }
    flow_ = std::move(joined);
    events_per_stretch_ *= 2;
    ++joins_;
  }
  flow_.push_back({0, 0, flow_.back().end});
  events_in_stretch_ = 0;
  ++stretches_begun_;
}

// Joins the stretches of a group as begin_stretch() joined those of the process. The group had no
// event since, so `present` is one of the stretches that were joined; if its partner came later,
// the group was quiet in that partner.
void History::join_pairs(GroupHistory& history) {
  std::vector<Stretch> all = std::move(history.done);
  all.push_back(history.present);
  const bool is_whole = all.size() % 2 == 0;
  std::vector<Stretch> joined;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) joined.push_back(join(all[i], all[i + 1]));
  if (is_whole) {
    history.present = joined.back();
    joined.pop_back();
  } else {
    history.present = join(all.back(), quiet_stretch(history));
  }
  history.done = std::move(joined);
}

// Applies the joins and new stretches of the process that came after the last event of the group.
void History::catch_up(GroupHistory& history, std::uint32_t joins, std::size_t stretches) {
  for (; history.joins_seen != joins; ++history.joins_seen) join_pairs(history);
  while (history.done.size() + 1 < stretches) {
    history.done.push_back(history.present);
    history.present = quiet_stretch(history);
  }
}

std::vector<History::Stretch> History::stretches_of(std::uint32_t group) const {
  GroupHistory history;
  if (group < groups_.size()) history = groups_[group];
  catch_up(history, joins_, flow_.size());
  history.done.push_back(history.present);
  return std::move(history.done);
}

}  // namespace gpumemtrace::analyzer
