// SPDX-License-Identifier: Apache-2.0
// The live memory of every group of allocations over the run, in a few dozen stretches, from which
// growth and churn are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer {

// - The run is cut into stretches with equal numbers of events (allocations and frees), not of
//   equal time, so that the same program gives the same history however fast it ran. When there are
//   more than kMaxStretches, neighbours are joined in pairs.
// - Memory: 32 bytes for each stretch and group. A group's stretches are brought up to date when it
//   allocates or frees.
// - The events before a checkpoint are not part of the history.
class History {
 public:
  static constexpr std::size_t kMaxStretches = 64;

  struct Stretch {
    std::uint64_t low_bytes = 0;  // the least that was live in the stretch
    std::uint64_t low_count = 0;  // the least number of live allocations, perhaps at another time
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;  // frees by calls, not by the end of a context
  };
  // Events of the whole process in a stretch.
  struct Flow {
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t end = 0;  // model time of the last allocation before the stretch ended
  };

  void allocate(std::uint32_t group, std::uint64_t bytes, std::uint64_t now) {
    GroupHistory& history = touch(group);
    ++flow_.back().allocations;
    ++history.present.allocations;
    history.live_bytes += bytes;
    ++history.live_count;
    flow_.back().end = now;
    count_event();
  }
  // `by_call`: false if the end of a context freed the memory.
  void free(std::uint32_t group, std::uint64_t bytes, bool by_call) {
    GroupHistory& history = touch(group);
    ++flow_.back().frees;
    if (by_call) ++history.present.frees;
    history.live_bytes -= bytes;
    --history.live_count;
    if (history.live_bytes < history.present.low_bytes)
      history.present.low_bytes = history.live_bytes;
    if (history.live_count < history.present.low_count)
      history.present.low_count = history.live_count;
    count_event();
  }
  // Adds bytes to a live allocation whose size was not known yet when allocate() was called.
  void grow(std::uint32_t group, std::uint64_t more_bytes) {
    touch(group).live_bytes += more_bytes;
  }

  // One row for each stretch; the last stretch may be shorter than the others.
  [[nodiscard]] const std::vector<Flow>& flow() const { return flow_; }
  // The group's stretches; as many rows as flow().
  [[nodiscard]] std::vector<Stretch> stretches_of(std::uint32_t group) const;

 private:
  struct GroupHistory {
    std::uint64_t live_bytes = 0;
    std::uint64_t live_count = 0;
    Stretch present;                   // the stretch after those in `done`
    std::vector<Stretch> done;         // all stretches before `present`
    std::uint32_t joins_seen = 0;      // number of joins of stretches at the last touch()
    std::uint64_t stretches_seen = 0;  // number of stretches begun at the last touch()
  };

  // A stretch in which the group neither allocated nor freed.
  static Stretch quiet_stretch(const GroupHistory& history) {
    return {history.live_bytes, history.live_count, 0, 0};
  }
  GroupHistory& touch(std::uint32_t group) {
    if (group >= groups_.size()) groups_.resize(group + 1);
    GroupHistory& history = groups_[group];
    if (history.stretches_seen != stretches_begun_) {
      history.stretches_seen = stretches_begun_;
      catch_up(history, joins_, flow_.size());
    }
    return history;
  }
  void count_event() {
    if (++events_in_stretch_ == events_per_stretch_) begin_stretch();
  }
  void begin_stretch();
  static void catch_up(GroupHistory& history, std::uint32_t joins, std::size_t stretches);
  static void join_pairs(GroupHistory& history);

  std::vector<GroupHistory> groups_;  // histories by the group's index
  std::vector<Flow> flow_{1};
  std::uint64_t events_per_stretch_ = 1;
  std::uint64_t events_in_stretch_ = 0;
  std::uint32_t joins_ = 0;
  std::uint64_t stretches_begun_ = 1;
};

}  // namespace gpumemtrace::analyzer
