// SPDX-License-Identifier: Apache-2.0
// The steps of a program, found by the best source there is, and the program's named ranges.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/base/words.hpp"
#include "analyzer/model/program/intervals.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// Finds the period of a program's allocations; used if nothing else tells the program's steps.
//
// An allocation that a program makes once in each period always has the same number of other
// allocations before it comes again. Such an allocation is a candidate; at the end one of them is
// chosen to mark the steps.
// - One look-up for each allocation while candidates are searched, none later; memory is bounded.
// - The shortest period that holds nearly everywhere wins: longer ones are multiples of it.
class Periods {
 public:
  static constexpr std::size_t kMaxCandidates = 4;
  static constexpr std::size_t kNone = ~std::size_t{0};

  // Takes an allocation of `bytes` at the call site `site`. Returns the index of the candidate
  // whose next period begins with this allocation, or kNone.
  std::size_t add(std::uint32_t site, std::uint64_t bytes);
  // The candidate whose periods are the steps, or kNone.
  [[nodiscard]] std::size_t best() const;

 private:
  struct Seen {
    std::uint64_t key = 0;
    std::uint64_t last = 0;  // number of the last allocation of this key
    std::uint64_t gap = 0;
    std::uint64_t equal_gaps = 0;
  };
  struct Candidate {
    std::uint64_t key = 0;
    std::uint64_t period = 0;
    std::uint64_t first = 0;  // number of the allocation at which the candidate was found
    std::uint64_t last = 0;
    std::uint64_t equal = 0;  // number of periods of exactly `period` allocations
    std::uint64_t other = 0;
  };

  void search(std::uint64_t key);
  void nominate(const Seen& seen);
  std::size_t follow(std::uint64_t key);

  std::uint64_t count_ = 0;
  FlatMap<Seen, &Seen::key> seen_;
  std::vector<Candidate> candidates_;
};

enum class MarkSource : std::uint8_t { kControl, kApi, kNvtx };
constexpr auto names(MarkSource) { return std::to_array<std::string_view>({"ctl", "api", "nvtx"}); }

struct NamedMark {
  std::uint64_t time = 0;  // model time
  MarkSource source = MarkSource::kControl;
  std::string name;
};

// Keeps the first marks and the last ones; the marks between are only counted.
class Marks {
 public:
  static constexpr std::size_t kEnds = 500;

  void add(std::uint64_t time, MarkSource source, std::string_view name) {
    NamedMark mark{time, source, std::string(name)};
    if (first_.size() < kEnds) {
      first_.push_back(std::move(mark));
      return;
    }
    last_.push_back(std::move(mark));
    if (last_.size() <= kEnds) return;
    last_.pop_front();
    ++left_out_;
  }
  // The kept marks in the order of time.
  [[nodiscard]] std::vector<NamedMark> all() const {
    std::vector<NamedMark> kept = first_;
    kept.insert(kept.end(), last_.begin(), last_.end());
    return kept;
  }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  std::vector<NamedMark> first_;
  std::deque<NamedMark> last_;
  std::uint64_t left_out_ = 0;
};

// The sources that tell where steps begin, the most reliable first.
enum class StepSource : std::uint8_t { kApi, kNvtx, kOptimizer, kPeriod };
constexpr auto names(StepSource) {
  return std::to_array<std::string_view>({"api", "nvtx", "optimizer", "period"});
}

// The step's number in the name of a range, such as PyTorch's "ProfilerStep#7"; nullopt if the
// range is no step.
[[nodiscard]] std::optional<std::uint64_t> step_number_of(std::string_view range_name);

// - Every source is followed from the start; at the end one of them is chosen for the steps.
// - Memory is bounded, whatever the number of steps and ranges.
class Steps {
 public:
  explicit Steps(Accounts& accounts) : meter_(accounts) {}

  void add_name(std::uint32_t id, std::string_view text) { names_[id] = text; }
  void apply(const trace::Annotation& annotation, std::uint32_t writer, std::uint64_t now);
  // Ends the ranges of the writer's former thread: another thread takes over its stream.
  void thread_changed(std::uint32_t writer, std::uint64_t now);
  void optimizer_ended(std::uint64_t now);
  // Notes that forward or backward work began: if optimizers tell the steps, the first step begins.
  void work_began(std::uint64_t now);
  void allocated(std::uint32_t site, std::uint64_t bytes, std::uint64_t now);
  void count_transfer(std::uint64_t bytes) { meter_.count_transfer(bytes); }
  // `keep_optimizer_step`: work after the end of the last optimizer step counts as a step, too.
  // Periods shorter than `shortest_period` ticks on average are taken for loops, not steps.
  void finish(bool keep_optimizer_step, std::uint64_t shortest_period);
  // The steps as they would be if the trace ended now.
  [[nodiscard]] Steps by_now(bool keep_optimizer_step, std::uint64_t shortest_period);

  // Time of the program's mark: memory allocated up to it is no leak. 0 = there is no mark.
  [[nodiscard]] std::uint64_t leaks_from() const { return leaks_from_; }

  // The source that gives the steps; nullopt if no source gives any.
  [[nodiscard]] std::optional<StepSource> source() const { return source_; }
  [[nodiscard]] std::vector<Interval> steps() const;
  [[nodiscard]] std::vector<Interval> ranges() const { return ranges_.all(); }
  // Sums over all ranges, including those that ranges() leaves out.
  [[nodiscard]] const IntervalsByName& ranges_by_name() const { return ranges_by_name_; }
  [[nodiscard]] std::string name_of(std::uint32_t id) const;
  [[nodiscard]] const Marks& marks() const { return marks_; }
  [[nodiscard]] Marks& marks() { return marks_; }
  // The step in which the time lies; nullopt if that step is not among the kept ones.
  [[nodiscard]] std::optional<std::uint64_t> step_at(std::uint64_t time) const;
  [[nodiscard]] std::uint64_t steps_left_out() const;
  [[nodiscard]] std::uint64_t ranges_left_out() const {
    return ranges_.left_out() + meter_.left_out();
  }

 private:
  struct Track {
    std::size_t open = IntervalMeter::kNone;
    std::uint64_t next_index = 0;
    KeptIntervals ended_steps;
  };
  struct OpenRange {
    std::size_t slot = IntervalMeter::kNone;
    bool is_step = false;
    std::uint64_t id = 0;  // the range's id, by which kEnd finds it
  };
  // Key of open ranges that nest: writer, source and domain. Ranges that any thread may end have
  // kWholeProcess instead of a writer.
  using Nest = std::tuple<std::uint32_t, trace::AnnotationSource, std::uint32_t>;
  static constexpr std::uint32_t kWholeProcess = ~std::uint32_t{0};

  [[nodiscard]] Track& track(StepSource source) {
    return tracks_[static_cast<std::size_t>(source)];
  }
  void begin_step(Track& track, std::uint64_t index, std::uint64_t now);
  void end_step(Track& track, std::uint64_t now);
  [[nodiscard]] OpenRange begin_range(const trace::Annotation& annotation, std::uint64_t now);
  void end_range(const OpenRange& range, std::uint64_t now);
  void keep_range(const Interval& range) {
    ranges_.add(range);
    ranges_by_name_.add(range, name_of(range.name));
  }
  void end_process_range(std::vector<OpenRange>& open, std::uint64_t id, std::uint64_t now);
  [[nodiscard]] const KeptIntervals* kept_steps() const;
  [[nodiscard]] bool has_periods_of(std::uint64_t shortest_period) const;

  IntervalMeter meter_;
  std::array<Track, 3> tracks_;  // one for each source but kPeriod
  std::array<Track, Periods::kMaxCandidates> period_tracks_;
  Periods periods_;
  KeptIntervals ranges_;
  IntervalsByName ranges_by_name_;
  Marks marks_;
  std::uint64_t range_count_ = 0;
  std::map<Nest, std::vector<OpenRange>> open_ranges_;
  std::map<std::uint32_t, std::string> names_;
  std::uint64_t leaks_from_ = 0;
  std::optional<StepSource> source_;
};

}  // namespace gpumemtrace::analyzer
