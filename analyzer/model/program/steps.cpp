// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/steps.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace gpumemtrace::analyzer {
namespace {

// The search for candidates ends after so many allocations, and remembers at most so many different
// pairs of call site and size.
constexpr std::uint64_t kSearchedAllocations = 200'000;
constexpr std::size_t kMaxSeen = 20'000;

// An allocation becomes a candidate after so many equal gaps in a row, and can mark the steps if it
// has at least so many periods.
constexpr std::uint64_t kGapsOfCandidate = 3;
constexpr std::uint64_t kLeastPeriods = 6;

// A program makes steps most of the time. Layers that are put on the device one after the other
// also have equal gaps, but other work follows. So regular periods must contain at least one in so
// many of all allocations.
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

// Counts equal gaps between allocations of one key, which make the key a candidate.
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

// Adds a candidate unless one has the same length of period already.
void Periods::nominate(const Seen& seen) {
  if (candidates_.size() == kMaxCandidates) return;
  if (std::ranges::find(candidates_, seen.gap, &Candidate::period) != candidates_.end()) return;
  candidates_.push_back({seen.key, seen.gap, count_, count_, 0, 0});
}

// The shortest period that is regular in 19 of 20 cases and covers enough of all allocations.
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

namespace {

constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};
// Once another source has recorded this many steps, allocations are no longer searched for periods.
constexpr std::uint64_t kEnoughSteps = 3;
// Bounds open ranges: pushes without pops and starts without ends must not fill the memory.
constexpr std::size_t kMaxNesting = 1024;

bool equal_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

std::optional<std::uint64_t> step_number_of(std::string_view range_name) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"ProfilerStep", "step", "train_step", "training_step", "iteration", "iter", "batch"});
  const std::size_t word_end = range_name.find_first_of("#: 0123456789");
  if (word_end == std::string_view::npos) return std::nullopt;
  std::string_view word = range_name.substr(0, word_end);
  if (!word.empty() && word.back() == '_') word.remove_suffix(1);
  const bool is_step = std::ranges::any_of(
      kWords, [&](std::string_view known) { return equal_without_case(word, known); });
  const std::size_t number_begin = range_name.find_first_not_of("#: _", word_end);
  if (!is_step || number_begin == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const std::string_view digits = range_name.substr(number_begin);
  if (digits.size() > 18) return std::nullopt;
  const char* const end = digits.data() + digits.size();
  if (std::from_chars(digits.data(), end, number).ptr != end) return std::nullopt;
  return number;
}

void Steps::begin_step(Track& track, std::uint64_t index, std::uint64_t now) {
  end_step(track, now);
  track.open = meter_.begin(index, 0, now);
  track.next_index = index + 1;
}

void Steps::end_step(Track& track, std::uint64_t now) {
  if (track.open == IntervalMeter::kNone) return;
  track.ended_steps.add(meter_.end(track.open, now));
  track.open = IntervalMeter::kNone;
}

Steps::OpenRange Steps::begin_range(const trace::Annotation& annotation, std::uint64_t now) {
  OpenRange range;
  range.id = annotation.value;
  range.slot = meter_.begin(range_count_++, annotation.name, now);
  const auto name = names_.find(annotation.name);
  if (name == names_.end() || annotation.source != trace::AnnotationSource::kNvtx) return range;
  if (const std::optional<std::uint64_t> number = step_number_of(name->second)) {
    range.is_step = true;
    begin_step(track(StepSource::kNvtx), *number, now);
  }
  return range;
}

void Steps::end_range(const OpenRange& range, std::uint64_t now) {
  if (range.slot != IntervalMeter::kNone) keep_range(meter_.end(range.slot, now));
  if (range.is_step) end_step(track(StepSource::kNvtx), now);
}

void Steps::end_process_range(std::vector<OpenRange>& open, std::uint64_t id, std::uint64_t now) {
  const auto found = std::ranges::find(open, id, &OpenRange::id);
  if (found == open.end()) return;
  end_range(*found, now);
  open.erase(found);
}

void Steps::apply(const trace::Annotation& annotation, std::uint32_t writer, std::uint64_t now) {
  using trace::AnnotationOperation;
  const auto open_in = [&](std::uint32_t scope) -> std::vector<OpenRange>& {
    return open_ranges_[{scope, annotation.source, annotation.domain}];
  };
  switch (annotation.operation) {
    case AnnotationOperation::kStep: {
      Track& api = track(StepSource::kApi);
      begin_step(api, annotation.value == kNoNumber ? api.next_index : annotation.value, now);
      return;
    }
    case AnnotationOperation::kPush:
    case AnnotationOperation::kStart: {
      const bool is_push = annotation.operation == AnnotationOperation::kPush;
      std::vector<OpenRange>& open = open_in(is_push ? writer : kWholeProcess);
      if (open.size() < kMaxNesting) open.push_back(begin_range(annotation, now));
      return;
    }
    case AnnotationOperation::kPop: {
      std::vector<OpenRange>& open = open_in(writer);
      if (open.empty()) return;  // the range was begun before the recording
      end_range(open.back(), now);
      open.pop_back();
      return;
    }
    case AnnotationOperation::kEnd: {
      // NVTX lets a range end without naming its domain.
      for (auto& [nest, open] : open_ranges_) {
        if (std::get<0>(nest) == kWholeProcess) end_process_range(open, annotation.value, now);
      }
      return;
    }
    case AnnotationOperation::kMark: {
      const std::string name = name_of(annotation.name);
      if (name == trace::kLeaksFromHere) leaks_from_ = now;
      const bool is_nvtx = annotation.source == trace::AnnotationSource::kNvtx;
      marks_.add(now, is_nvtx ? MarkSource::kNvtx : MarkSource::kApi, name);
      return;
    }
  }
}

void Steps::thread_changed(std::uint32_t writer, std::uint64_t now) {
  for (auto nest = open_ranges_.lower_bound({writer, trace::AnnotationSource::kUnknown, 0});
       nest != open_ranges_.end() && std::get<0>(nest->first) == writer; ++nest) {
    for (const OpenRange& range : nest->second) end_range(range, now);
    nest->second.clear();
  }
}

void Steps::work_began(std::uint64_t now) {
  Track& optimizer = track(StepSource::kOptimizer);
  if (optimizer.open == IntervalMeter::kNone) begin_step(optimizer, optimizer.next_index, now);
}

void Steps::optimizer_ended(std::uint64_t now) {
  Track& optimizer = track(StepSource::kOptimizer);
  begin_step(optimizer, optimizer.next_index, now);
}

void Steps::allocated(std::uint32_t site, std::uint64_t bytes, std::uint64_t now) {
  for (const Track& told : tracks_) {
    if (told.ended_steps.count() >= kEnoughSteps) return;
  }
  const std::size_t candidate = periods_.add(site, bytes);
  if (candidate == Periods::kNone) return;
  Track& track = period_tracks_[candidate];
  begin_step(track, track.next_index, now);
}

void Steps::finish(bool keep_optimizer_step, std::uint64_t shortest_period) {
  for (auto& [nest, open] : open_ranges_) {
    for (const OpenRange& range : open) {
      if (range.slot != IntervalMeter::kNone) keep_range(meter_.cut(range.slot));
    }
    open.clear();
  }
  const auto keep_open_step = [&](StepSource source) {
    Track& open = track(source);
    if (open.open != IntervalMeter::kNone) open.ended_steps.add(meter_.cut(open.open));
    open.open = IntervalMeter::kNone;
  };
  keep_open_step(StepSource::kApi);
  keep_open_step(StepSource::kNvtx);
  if (keep_optimizer_step) keep_open_step(StepSource::kOptimizer);
  for (const StepSource source : {StepSource::kApi, StepSource::kNvtx, StepSource::kOptimizer}) {
    if (!source_ && track(source).ended_steps.count() != 0) source_ = source;
  }
  if (!source_ && has_periods_of(shortest_period)) source_ = StepSource::kPeriod;
}

Steps Steps::by_now(bool keep_optimizer_step, std::uint64_t shortest_period) {
  meter_.absorb();  // reads the accounts' peaks before finish() of the copy resets them
  Steps steps = *this;
  steps.finish(keep_optimizer_step, shortest_period);
  return steps;
}

// True if the periods are at least `shortest_period` ticks long on average.
bool Steps::has_periods_of(std::uint64_t shortest_period) const {
  if (periods_.best() == Periods::kNone) return false;
  const KeptIntervals& periods = period_tracks_[periods_.best()].ended_steps;
  if (periods.count() == 0) return false;
  const std::vector<Interval> kept = periods.all();
  return (kept.back().end - kept.front().start) / periods.count() >= shortest_period;
}

const KeptIntervals* Steps::kept_steps() const {
  if (!source_) return nullptr;
  if (*source_ == StepSource::kPeriod) return &period_tracks_[periods_.best()].ended_steps;
  return &tracks_[static_cast<std::size_t>(*source_)].ended_steps;
}

std::vector<Interval> Steps::steps() const {
  const KeptIntervals* const kept = kept_steps();
  return kept == nullptr ? std::vector<Interval>() : kept->all();
}

std::uint64_t Steps::steps_left_out() const {
  const KeptIntervals* const kept = kept_steps();
  return kept == nullptr ? 0 : kept->left_out();
}

std::optional<std::uint64_t> Steps::step_at(std::uint64_t time) const {
  for (const Interval& step : steps()) {
    if (step.start <= time && (step.end == 0 || time < step.end)) return step.index;
  }
  return std::nullopt;
}

std::string Steps::name_of(std::uint32_t id) const {
  const auto found = names_.find(id);
  return found == names_.end() ? std::string() : found->second;
}

}  // namespace gpumemtrace::analyzer
