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

// kMaxStretches is even, so all stretches have a partner and the new one begins empty.
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

// The group was last touched before the join, when its present stretch was one of the old ones.
void History::join_pairs(GroupCourse& course) {
  std::vector<Stretch> all = std::move(course.done);
  all.push_back(course.present);
  const bool is_whole = all.size() % 2 == 0;
  std::vector<Stretch> joined;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) joined.push_back(join(all[i], all[i + 1]));
  if (is_whole) {
    course.present = joined.back();
    joined.pop_back();
  } else {
    course.present = join(all.back(), quiet_stretch(course));
  }
  course.done = std::move(joined);
}

void History::catch_up(GroupCourse& course, std::uint32_t joins, std::size_t stretches) {
  for (; course.joins_seen != joins; ++course.joins_seen) join_pairs(course);
  while (course.done.size() + 1 < stretches) {
    course.done.push_back(course.present);
    course.present = quiet_stretch(course);
  }
}

std::vector<History::Stretch> History::stretches_of(std::uint32_t group) const {
  GroupCourse course;
  if (group < courses_.size()) course = courses_[group];
  catch_up(course, joins_, flow_.size());
  course.done.push_back(course.present);
  return std::move(course.done);
}

}  // namespace gpumemtrace::analyzer
