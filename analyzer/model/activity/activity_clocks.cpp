// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/activity_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

constexpr double kNsPerSecond = 1e9;
// most ticks from a clock pair to a converted time; fits into 63 bits
constexpr double kFarthestTicks = 9e18;
constexpr std::uint64_t kEndOfTime = std::numeric_limits<std::uint64_t>::max();
constexpr double kReadingNs = 500;
// The longest time from the start of an activity until the recorder got CUPTI's record of it.
constexpr double kLongestDelayNs = 86'400 * kNsPerSecond;
// A CUPTI clock that differs from the time of day by less than this shows the time of day.
constexpr double kSameClockNs = kNsPerSecond;

// Two clock pairs that are closer together than this do not give the clock's rate, because of the
// jitter of the readings.
constexpr double kShortestPieceNs = 10e6;

double difference(std::uint64_t to, std::uint64_t from) {
  return static_cast<double>(static_cast<std::int64_t>(to - from));
}

}  // namespace

ActivityClocks::ActivityClocks(const std::vector<trace::ActivityClock>& pairs, const Clock& clock)
    : realtime_(clock.points()) {
  constexpr std::uint64_t kTicks = 1'000'000'000;
  const std::uint64_t duration_ns = clock.duration_ns(kTicks);
  if (duration_ns != 0) {
    ticks_per_ns_ = static_cast<double>(kTicks) / static_cast<double>(duration_ns);
  }
  update_limits();
  std::set<std::uint32_t> libraries;
  std::set<std::uint32_t> libraries_from_the_start;
  for (const trace::ActivityClock& pair : pairs) {
    add(pair);
    libraries.insert(pair.library);
    if (pair.epoch == 0) libraries_from_the_start.insert(pair.library);
  }
  for (const std::uint32_t library : libraries) {
    if (libraries_from_the_start.count(library) == 0) assume_time_of_day(library);
  }
}

// Adds pairs for epoch 0 of a library whose clock was exchanged before the recorder took a pair:
// CUPTI's own first clock shows the time of day.
void ActivityClocks::assume_time_of_day(std::uint32_t library) {
  for (const ClockPoint& point : realtime_) {
    trace::ActivityClock pair;
    pair.record.time = point.ticks;
    pair.timestamp = point.realtime_ns;
    pair.library = library;
    add(pair);
  }
}

void ActivityClocks::add(const trace::ActivityClock& record) {
  if (record.timestamp == 0) return;
  Pair pair{record.timestamp, record.record.time + record.uncertainty_ticks / 2,
            record.uncertainty_ticks, 0};
  Epoch& epoch = find_or_add_epoch(record.library, record.epoch);
  const auto after = std::ranges::lower_bound(epoch.pairs, pair.timestamp, {}, &Pair::timestamp);
  const auto at = static_cast<std::size_t>(after - epoch.pairs.begin());
  if (after != epoch.pairs.end() && after->timestamp == pair.timestamp) return;
  // If the two clocks do not both run forward between two pairs, one of the pairs is wrong.
  if (after != epoch.pairs.end() && after->ticks <= pair.ticks) return;
  if (after != epoch.pairs.begin() && (after - 1)->ticks >= pair.ticks) return;
  const bool is_close =
      after != epoch.pairs.begin() && after == epoch.pairs.end() && epoch.pairs.size() > 1 &&
      difference(pair.ticks, (after - 1)->ticks) < kShortestPieceNs * ticks_per_ns_;
  if (is_close) {
    if (pair.uncertainty <= (after - 1)->uncertainty) *(after - 1) = pair;
  } else {
    epoch.pairs.insert(after, pair);
  }
  measure(epoch, at);
}

ActivityClocks::Epoch& ActivityClocks::find_or_add_epoch(std::uint32_t library,
                                                         std::uint32_t number) {
  const auto place = std::ranges::lower_bound(
      epochs_, std::pair(library, number), {},
      [](const Epoch& epoch) { return std::pair(epoch.library, epoch.number); });
  if (place != epochs_.end() && place->library == library && place->number == number) return *place;
  Epoch added;
  added.library = library;
  added.number = number;
  return *epochs_.insert(place, std::move(added));
}

// Computes the rates and errors again after the pair at the index `changed` was added. The results
// for pairs far before it do not change.
void ActivityClocks::measure(Epoch& epoch, std::size_t changed) {
  std::vector<Pair>& pairs = epoch.pairs;
  const auto rate = [&](std::size_t from, std::size_t to) {
    return difference(pairs[to].ticks, pairs[from].ticks) /
           difference(pairs[to].timestamp, pairs[from].timestamp);
  };
  const std::size_t last = pairs.size() - 1;
  epoch.latest = {};
  epoch.ticks_per_unit = last == 0 ? rate_of_single(pairs[0], epoch.number == 0) : rate(0, last);
  for (std::size_t i = changed < 2 ? 0 : changed - 2; i <= last; ++i) {
    pairs[i].ticks_per_unit = i == last ? epoch.ticks_per_unit : rate(i, i + 1);
    std::uint64_t error = pairs[i].uncertainty / 2;
    if (i != 0 && i != last) {
      const double expected =
          difference(pairs[i].timestamp, pairs[i - 1].timestamp) * rate(i - 1, i + 1);
      const double seen = difference(pairs[i].ticks, pairs[i - 1].ticks);
      error += static_cast<std::uint64_t>(std::abs(seen - expected));
    }
    error_ticks_ = std::max(error_ticks_, error);
  }
  update_limits();
}

void ActivityClocks::update_limits() {
  limits_.longest = kLongestDelayNs * ticks_per_ns_;
  limits_.shortest_delay = -(static_cast<double>(error_ticks_) + 1e6 * ticks_per_ns_);
  limits_.tolerance = error_ticks_ + static_cast<std::uint64_t>(kReadingNs * ticks_per_ns_);
}

// The rate of an epoch with one pair alone: 1 if CUPTI's clock shows the ticks, the ticks per
// nanosecond if the first clock shows the time of day, and 0 (not known) otherwise.
double ActivityClocks::rate_of_single(const Pair& pair, bool is_first) const {
  const double from_ticks = std::abs(difference(pair.timestamp, pair.ticks));
  if (from_ticks <= static_cast<double>(pair.uncertainty) + 1) return 1.0;
  if (!is_first || realtime_.empty()) return 0;
  const ClockPoint& known = realtime_.front();
  const double realtime_ns =
      static_cast<double>(known.realtime_ns) + difference(pair.ticks, known.ticks) / ticks_per_ns_;
  const double off_ns = static_cast<double>(pair.timestamp) - realtime_ns;
  return std::abs(off_ns) < kSameClockNs ? ticks_per_ns_ : 0;
}

// Returns the piece of the epoch that contains the time. It is nearly always the piece that was
// looked up last.
const ActivityClocks::Piece& ActivityClocks::piece_of(const Epoch& epoch, std::uint64_t timestamp) {
  if (timestamp - epoch.latest.begin >= epoch.latest.length) look_up(epoch, timestamp);
  return epoch.latest;
}

void ActivityClocks::look_up(const Epoch& epoch, std::uint64_t timestamp) {
  const std::vector<Pair>& pairs = epoch.pairs;
  const auto after = std::ranges::upper_bound(pairs, timestamp, {}, &Pair::timestamp);
  const auto pair = after == pairs.begin() ? after : after - 1;
  const auto next = pair + 1;
  Piece& piece = epoch.latest;
  piece.begin = pair == pairs.begin() ? 0 : pair->timestamp;
  piece.length = (next == pairs.end() ? kEndOfTime : next->timestamp) - piece.begin;
  piece.timestamp = pair->timestamp;
  piece.ticks = pair->ticks;
  piece.ticks_per_unit = pair->ticks_per_unit;
}

// Records do not name their epoch. The one is taken in which the shortest delay lies between the
// start of the activity and the time at which the recorder got the record.
std::optional<TickSpan> ActivityClocks::convert_to_ticks(std::uint16_t library, std::uint64_t start,
                                                         std::uint64_t end,
                                                         std::uint64_t taken_over) const {
  std::optional<TickSpan> found;
  if (start == 0 || end < start) return found;
  double smallest_delay = limits_.longest;
  for (const Epoch& epoch : epochs_) {
    if (epoch.library != library || epoch.ticks_per_unit <= 0) continue;
    const Piece& piece = piece_of(epoch, start);
    const double distance = difference(start, piece.timestamp) * piece.ticks_per_unit;
    if (std::abs(distance) > kFarthestTicks) continue;
    const double delay = difference(taken_over, piece.ticks) - distance;
    if (delay < limits_.shortest_delay || delay >= smallest_delay) continue;
    const double length = static_cast<double>(end - start) * piece.ticks_per_unit;
    if (length > limits_.longest) continue;
    smallest_delay = delay;
    const std::uint64_t ticks =
        piece.ticks + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
    found.emplace(TickSpan{ticks, ticks + static_cast<std::uint64_t>(length)});
  }
  return found;
}

}  // namespace gpumemtrace::analyzer
