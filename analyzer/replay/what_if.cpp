// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/what_if.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <set>

#include "analyzer/replay/packing.hpp"
#include "analyzer/replay/policy_replay.hpp"
#include "analyzer/replay/setting_replays.hpp"

namespace gpumemtrace::analyzer::replay {
namespace {

// A range of peaks that is wider than 1/20 of its lower end says too little.
constexpr std::uint64_t kWidestRangeDivisor = 20;
// From so many recorded events on, the replays of a setting try fewer random choices, to save time.
constexpr std::uint64_t kLongRun = 250'000;
constexpr std::uint64_t kVeryLongRun = 1'000'000;

Samples samples_of(std::uint64_t events) {
  if (events < kLongRun) return {8, 32};
  return events < kVeryLongRun ? Samples{4, 8} : Samples{1, 1};
}

constexpr const char* kUsualSettings[] = {
    "",
    "expandable_segments:True",
    "expandable_segments:True,large_segment_size_mb:12",
    "expandable_segments:True,large_segment_size_mb:40",
    "max_split_size_mb:32",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "roundup_power2_divisions:2",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "backend:cudaMallocAsync",
};
constexpr const char* kUsualWithLimit[] = {
    "garbage_collection_threshold:0.6",
    "garbage_collection_threshold:0.8",
};

// The beginning of the sentence that gives a range: it names what is not known.
std::string unknown_of_range(const SettingReplays& replays) {
  const std::string sizes = "the sizes that the program can have asked for";
  const std::string places = "where the driver can have placed segments";
  if (!replays.samples_places()) return sizes + " give ";
  if (!replays.samples_sizes()) return places + " gives ";
  return sizes + " and " + places + " give ";
}

// The rows of one device in the report. They are made after the pass that checks the rules, and
// filled by a pass that replays all settings and one that replays cards of other sizes.
class DeviceRows {
 public:
  DeviceRows(const DeviceEvents& events, const Lifetimes& lifetimes, const Gaps& gaps,
             const Question& question)
      : rules_(events.rules),
        live_low_bytes_(lifetimes.live_peak_low_bytes()),
        largest_request_(lifetimes.largest_request_bytes()),
        samples_(samples_of(lifetimes.events())) {
    answer_.device = events.device;
    answer_.facts = events.facts;
    answer_.live_peak_bytes = lifetimes.live_peak_bytes();
    if (!question.only_recorded) answer_.packed_bytes = lifetimes.packed_bytes();
    answer_.packed_events = lifetimes.events();
    answer_.sizes_known = !events.recorded || !events.recorded->has_unknown_sizes();
    if (events.recorded) {
      answer_.proof = events.recorded->proof();
      if (events.settings.memory_fraction == 1) set_own_limit(events);
      recorded_counts_ = events.recorded->allocator().counts();
    }
    refused_ = events.refused;
    answer_.classes = events.recorded ? answer_.proof.classes : events.streams;
    answer_.is_native = events.recorded != nullptr;
    answer_.is_without_torch = events.is_without_torch;
    answer_.changes = events.changes;
    if (events.allowed) answer_.memory_fraction = events.allowed->fraction;
    choose_basis(gaps);
    if (is_proven()) answer_.unusable = events.recorded->unusable_at_peak();
  }

  void add_rows(const DeviceEvents& events, const Question& question) {
    if (events.is_without_torch) return add_rows_without_torch(events, question);
    std::set<std::string> seen{events.options};
    add_row(events.options, RequestOrigin::kRecorded);
    const auto add_usual = [&](const std::string& usual) {
      const std::string text = with_recorded_limit(usual, events.options);
      if (seen.insert(text).second) add_row(text, RequestOrigin::kDefault);
    };
    if (!question.only_recorded) {
      std::ranges::for_each(kUsualSettings, add_usual);
      const bool has_limit = events.settings.memory_fraction < 1 || own_limit_.high != 0;
      if (has_limit) std::ranges::for_each(kUsualWithLimit, add_usual);
    }
    for (const std::string& text : question.settings) {
      if (seen.insert(text).second) add_row(text, RequestOrigin::kUser);
    }
  }

  // The replays that take the events for all rows, kept in replays_ until take_rows().
  [[nodiscard]] std::vector<EventSink*> row_sinks() {
    std::vector<EventSink*> sinks;
    bool has_bracket = false;
    for (const Row& row : answer_.rows) {
      if (row.settings.backend == Backend::kAsync) {
        has_bracket = true;
        continue;
      }
      if (is_as_recorded(row)) continue;
      const AllocatorSettings settings = row.settings.for_requests_up_to(largest_request_);
      if (find_replays(settings) != nullptr) continue;
      SettingReplays::Limits limits;
      limits.device_bytes = answer_.facts.total_bytes;
      if (!knows_limit_) limits.own_bytes = own_limit_.high;
      replays_.emplace_back(settings,
                            std::make_unique<SettingReplays>(settings, rules_, limits, samples_));
      sinks.push_back(replays_.back().second.get());
    }
    if (has_bracket) sinks.push_back(&used_);
    return sinks;
  }

  void take_rows() {
    for (Row& row : answer_.rows) {
      if (row.settings.backend == Backend::kAsync) {
        fill_lower_bound(row);
      } else if (is_as_recorded(row)) {
        fill_recorded(row);
      } else {
        fill(row, *find_replays(row.settings.for_requests_up_to(largest_request_)));
      }
    }
    replays_.clear();
  }

  // The sinks for open questions about cards: replays of rows whose peak is larger than the card,
  // but whose live bytes are not.
  [[nodiscard]] std::vector<EventSink*> card_sinks(const std::vector<std::uint64_t>& capacities) {
    std::vector<EventSink*> sinks;
    for (Row& row : answer_.rows) {
      for (const std::uint64_t capacity : capacities) row.fits.push_back(first_fit(row, capacity));
      if (row.settings.backend == Backend::kAsync || !row.high_bytes) continue;
      // The recorded settings changed in this run, so they are not replayed as one setting.
      if (answer_.changes != 0 && &row == &answer_.rows.front()) continue;
      for (Fit& fit : row.fits) {
        if (fit.fits || !answer_.facts.knows_other) continue;
        const std::uint64_t room = fit.capacity_bytes - std::min(fit.capacity_bytes, other_bytes());
        SettingReplays::Limits limits;
        limits.device_bytes = fit.capacity_bytes;
        limits.capacity_bytes = room;
        if (knows_limit_) {
          limits.allowed_scale = scale_to(fit.capacity_bytes);
        } else if (const std::uint64_t allowed = limits_on(row, fit.capacity_bytes).high;
                   allowed != AllocatorSettings::kNoLimit) {
          limits.own_bytes = allowed;
        }
        open_.push_back(
            {&row, &fit, std::make_unique<SettingReplays>(row.settings, rules_, limits, samples_)});
        sinks.push_back(open_.back().replays.get());
      }
    }
    return sinks;
  }

  // A row fits a card if none of its replays refuses a request, and does not fit if all refuse one;
  // otherwise the answer stays unknown.
  void take_cards() {
    for (const OpenFit& open : open_) {
      if (!open.replays->any_refused()) {
        const Limits limits = limits_on(*open.row, open.fit->capacity_bytes);
        if (knows_limit_ || is_sure(open.row->settings, open.replays->most_asked(), limits)) {
          open.fit->fits = true;
        } else {
          open.row->reason = own_limit_text();
        }
      } else if (open.replays->all_refused()) {
        open.fit->fits = false;
      }
    }
    open_.clear();
  }

  [[nodiscard]] DeviceAnswer&& take() { return std::move(answer_); }

 private:
  enum class RequestOrigin { kRecorded, kUser, kDefault };
  struct OpenFit {
    Row* row;
    Fit* fit;
    std::unique_ptr<SettingReplays> replays;
  };

  // The range in which PyTorch's own limit lies.
  struct Limits {
    std::uint64_t low = 0;
    std::uint64_t high = 0;  // 0 = no limit was seen
  };

  // Sets PyTorch's own limit: known if its settings were recorded, else between the requests that
  // it met and those that it refused.
  void set_own_limit(const DeviceEvents& events) {
    knows_limit_ = events.allowed.has_value();
    if (!knows_limit_) {
      own_limit_ = {events.recorded->lowest_torch_limit(), events.recorded->highest_torch_limit()};
    } else if (events.allowed->least_bytes != AllocatorSettings::kNoLimit) {
      own_limit_ = {events.allowed->least_bytes, events.allowed->most_bytes};
    }
  }

  // The factor by which a card of this size is larger than the recorded one.
  [[nodiscard]] double scale_to(std::uint64_t capacity) const {
    return static_cast<double>(capacity) / static_cast<double>(answer_.facts.total_bytes);
  }

  // PyTorch's own limit on a card of this size, if it is a fraction of the card.
  [[nodiscard]] Limits limits_on(const Row& row, std::uint64_t capacity) const {
    constexpr Limits kNone{AllocatorSettings::kNoLimit, AllocatorSettings::kNoLimit};
    if (const std::uint64_t allowed = row.settings.allowed_bytes(capacity); allowed != 0) {
      return {allowed, allowed};
    }
    if (own_limit_.high == 0) return kNone;
    if (answer_.facts.total_bytes == 0) return {0, AllocatorSettings::kNoLimit};
    const double scale = scale_to(capacity);
    return {scaled_limit(own_limit_.low, scale), scaled_limit(own_limit_.high, scale)};
  }

  // True if a replay under the highest limit, which asked the driver for `asked` bytes, is the same
  // under the lowest limit.
  [[nodiscard]] static bool is_sure(const AllocatorSettings& settings, std::uint64_t asked,
                                    const Limits& limits) {
    // Garbage is collected from a share of the limit on, so its replay depends on the exact limit.
    return limits.low == limits.high ||
           (asked <= limits.low && settings.garbage_collection_threshold == 0);
  }

  [[nodiscard]] std::string own_limit_text() const {
    return "PyTorch kept to a limit of its own (a memory fraction), by what it met and refused " +
           std::to_string(own_limit_.low) + " to " + std::to_string(own_limit_.high) +
           " bytes on the recorded card: whether it would have refused this is not known";
  }

  [[nodiscard]] bool is_proven() const {
    return answer_.is_native && answer_.proof.holds() && !has_gaps_;
  }
  // True if these settings behave in this run like the recorded ones.
  [[nodiscard]] bool is_as_recorded(const Row& row) const {
    if (!is_proven()) return false;
    const Row& recorded = answer_.rows.front();
    return &row == &recorded || (basis_ != Basis::kEstimated && answer_.changes == 0 &&
                                 row.settings.for_requests_up_to(largest_request_) ==
                                     recorded.settings.for_requests_up_to(largest_request_));
  }
  [[nodiscard]] const SettingReplays* find_replays(const AllocatorSettings& settings) const {
    for (const auto& [replayed, replays] : replays_) {
      if (replayed == settings) return replays.get();
    }
    return nullptr;
  }

  [[nodiscard]] std::uint64_t other_bytes() const { return answer_.facts.other_at_peak; }

  // Without PyTorch, the first row is the driver itself; the others show PyTorch's allocator
  // instead.
  void add_rows_without_torch(const DeviceEvents& events, const Question& question) {
    Row row;
    row.policy = "the driver";
    row.settings.backend = Backend::kAsync;
    row.segment_calls = events.requests + events.frees;
    answer_.rows.push_back(std::move(row));
    for (const char* text : kUsualSettings) {
      if (parse_settings(text, rules_).backend == Backend::kNative)
        add_row(text, RequestOrigin::kDefault);
    }
    for (const std::string& text : question.settings) add_row(text, RequestOrigin::kUser);
  }

  void choose_basis(const Gaps& gaps) {
    has_gaps_ = !gaps.reason.empty() && !gaps.is_end_only;
    reason_ = rows::text_or_none(gaps.reason.empty() ? why_estimated() : gaps.reason);
    basis_ = reason_ ? Basis::kEstimated : answer_.sizes_known ? Basis::kReplayed : Basis::kSampled;
  }

  // The reason why results are only estimated, for a trace without gaps. Empty if this run confirms
  // the rules.
  [[nodiscard]] std::string why_estimated() const {
    if (answer_.is_native && answer_.proof.placements + answer_.proof.mismatches == 0) {
      return "no request to the allocator was recorded";
    }
    if (answer_.is_native && !answer_.proof.holds()) {
      return "the recorded run could not be replayed: " + answer_.proof.first_mismatch;
    }
    if (!rules_.was_proven()) {
      return "the rules of PyTorch 2." + std::to_string(rules_.minor) +
             " were never compared with a run";
    }
    if (answer_.proof.has_earlier_state) {
      return "the program had allocated before the recorded part began: what was live then is laid "
             "out anew for other settings";
    }
    if (answer_.proof.waits != 0) {
      return "blocks waited for other streams (record_stream), and when these are done differs "
             "from run to run";
    }
    if (answer_.is_native && !answer_.proof.knows_classes()) {
      return "streams and pools are told apart by where blocks were placed";
    }
    if (answer_.is_without_torch && refused_ != 0) {
      return "the driver refused a request: what the program would have asked for then is not "
             "known";
    }
    return {};
  }

  void add_row(const std::string& text, RequestOrigin origin) {
    Row row;
    row.options = text;
    row.policy = text.empty() ? "default" : text;
    try {
      row.settings = parse_settings(text, rules_);
    } catch (const SettingError&) {
      // This version of PyTorch does not have the option.
      if (origin == RequestOrigin::kDefault) return;
      if (origin == RequestOrigin::kUser) throw;
      row.reason = reason_;
    }
    row.warning = rows::text_or_none(row.settings.warning(own_limit_.high != 0));
    row.basis = basis_;
    answer_.rows.push_back(std::move(row));
  }

  // Fills a row from its replays; without a peak if their results differ too much.
  void fill(Row& row, const SettingReplays& replays) const {
    const ReplayCounts counts = replays.first();
    const std::uint64_t low = replays.low_peak();
    const std::uint64_t high = replays.high_peak();
    row.reason = reason_;
    if (has_gaps_) return;
    if (answer_.proof.moved_segments != 0) {
      row.reason =
          "the places of the blocks contradict the streams that asked for them: a free waited for "
          "another stream (record_stream), or streams are not recorded";
      return;
    }
    if (low != high && row.basis == Basis::kReplayed) row.basis = Basis::kSampled;
    if (high - low > low / kWidestRangeDivisor) {
      row.reason = unknown_of_range(replays) + std::to_string(low) + " to " + std::to_string(high) +
                   " bytes";
      return;
    }
    set_peak(row, low, high);
    set_counts(row, counts.allocator);
    if (answer_.is_native ? knows_room_for(high) : fits_here(high)) row.raised = counts.refused;
    if (answer_.is_native && !knows_room_for(high)) row.retries.reset();
    row.asked_peak_bytes = replays.most_asked();
    const bool is_own = !knows_limit_ && own_limit_.high != 0 && row.settings.memory_fraction == 1;
    if (!is_own || is_sure(row.settings, *row.asked_peak_bytes, own_limit_)) return;
    if (replays.any_refused()) return;
    row.basis = Basis::kEstimated;
    row.reason = own_limit_text();
    row.raised.reset();
  }

  // Fills the row of the recorded settings: the proof has replayed these, whatever the sizes were.
  void fill_recorded(Row& row) const {
    set_peak(row, recorded_counts_.reserved_peak_bytes, recorded_counts_.reserved_peak_bytes);
    set_counts(row, recorded_counts_);
    row.raised = refused_;
    row.asked_peak_bytes = recorded_counts_.asked_peak_bytes;
    row.basis = Basis::kReplayed;
    row.reason.reset();
    if (answer_.changes != 0) {
      row.reason =
          "the program changed its settings while it ran, as this row has them; the others are for "
          "one text in place of all of them";
    }
  }

  static void set_peak(Row& row, std::uint64_t low, std::uint64_t high) {
    row.reserved_peak_bytes = high;
    row.low_bytes = low;
    row.high_bytes = high;
  }

  static void set_counts(Row& row, const AllocatorCounts& counts) {
    row.allocated_peak_bytes = counts.allocated_peak_bytes;
    row.retries = counts.retries;
    row.segments = counts.segments_peak;
    row.segment_calls = counts.segment_calls;
  }

  // Fills a row of the driver's pool, for which only a lower bound is known.
  void fill_lower_bound(Row& row) const {
    row.basis = Basis::kBracket;
    row.reason = reason_;
    if (has_gaps_) return;
    row.reason = answer_.is_without_torch && &row == &answer_.rows.front()
                     ? "its pages are larger than requests, and its pool keeps more: no upper "
                       "bound is known"
                     : "the driver's pool has rules of its own: no upper bound is known";
    row.low_bytes = answer_.is_without_torch ? live_low_bytes_ : used_.peak_bytes();
  }

  // True if a replay's peak of `bytes` is known to have had room: replays keep to the card's size
  // and to PyTorch's own limit. If neither is known, only the recorded peak is known to have room.
  [[nodiscard]] bool knows_room_for(std::uint64_t bytes) const {
    return answer_.facts.total_bytes != 0 || own_limit_.high != 0 ||
           bytes <= answer_.facts.segments_peak;
  }

  // True if so many bytes fit on the recorded device: replays of driver calls know no limit.
  [[nodiscard]] bool fits_here(std::uint64_t bytes) const {
    return refused_ == 0 && answer_.facts.knows_other &&
           bytes + other_bytes() <= answer_.facts.total_bytes;
  }

  // The answer that the row's peaks give; `fits` has no value if only a replay can tell.
  [[nodiscard]] Fit first_fit(const Row& row, std::uint64_t capacity) const {
    Fit fit{capacity, std::nullopt, std::nullopt};
    if (!row.low_bytes || !answer_.facts.knows_other) return fit;
    const Limits limits = limits_on(row, capacity);
    if (live_low_bytes_ + other_bytes() > capacity || live_low_bytes_ > limits.high) {
      fit.fits = false;
    }
    if (!row.high_bytes) return fit;
    const std::uint64_t needed = *row.high_bytes + other_bytes();
    fit.margin_bytes = static_cast<std::int64_t>(capacity - needed);
    const bool is_allowed = row.settings.garbage_collection_threshold == 0 &&
                            row.asked_peak_bytes && *row.asked_peak_bytes <= limits.low;
    if (needed <= capacity && is_allowed && row.raised == 0u) fit.fits = true;
    return fit;
  }

  TorchRules rules_;
  std::uint64_t live_low_bytes_ = 0;
  std::uint64_t largest_request_ = 0;
  Samples samples_;
  Limits own_limit_;  // PyTorch's own limit on the recorded card, if no setting names one
  // True if PyTorch's own limit is known at all times; own_limit_ has its range.
  bool knows_limit_ = false;
  std::uint64_t refused_ = 0;        // number of refused requests in the recorded run
  AllocatorCounts recorded_counts_;  // the counts of the replay that proves the rules
  Basis basis_ = Basis::kReplayed;
  rows::OptionalText reason_;
  bool has_gaps_ = false;  // true if calls in the middle of the run are missing: no replay is valid
  DeviceAnswer answer_;
  // The replays by settings; several rows can have the same settings.
  std::vector<std::pair<AllocatorSettings, std::unique_ptr<SettingReplays>>> replays_;
  UsedBytes used_;
  std::vector<OpenFit> open_;
};

}  // namespace

Answer what_if(const trace::TraceFile& file, const Question& question) {
  std::map<std::int32_t, Lifetimes> lifetimes;
  std::map<std::int32_t, EventLog> logs;
  const auto new_sinks = [&](const DeviceEvents& device) {
    return std::vector<EventSink*>{&(lifetimes[device.device] = {}),
                                   &(logs[device.device] = EventLog())};
  };
  TraceEvents events_of_trace = read_events(file, new_sinks);
  // Facts that the trace tells after the events to which they matter; it is then read once more.
  const TraceEvents::Unseen unseen = events_of_trace.unseen_before_sample();
  if (!unseen.empty()) events_of_trace = read_events(file, new_sinks, unseen);
  Answer answer;
  std::map<std::int32_t, DeviceRows> devices;
  for (const auto& [ordinal, events] : events_of_trace.devices()) {
    if (events.is_without_torch && question.only_recorded) continue;
    const auto rows = devices.try_emplace(ordinal, events, lifetimes.at(ordinal),
                                          events_of_trace.gaps(), question);
    rows.first->second.add_rows(events, question);
  }
  const bool is_logged = std::ranges::all_of(logs | std::views::values, &EventLog::is_complete);
  // Passes all events to the sinks, from the log, or from the trace if the log has no room for the
  // run. Without a sink nothing is read.
  const auto pass = [&](const auto& sinks_of) {
    std::map<std::int32_t, std::vector<EventSink*>> sinks;
    bool has_any = false;
    for (auto& [ordinal, rows] : devices) {
      sinks[ordinal] = sinks_of(rows);
      has_any = has_any || !sinks[ordinal].empty();
    }
    if (!has_any) return;
    if (is_logged) {
      for (const auto& [ordinal, log] : logs) log.replay(sinks[ordinal]);
    } else {
      (void)read_events(
          file, [&](const DeviceEvents& device) { return sinks[device.device]; }, unseen);
    }
  };
  pass([](DeviceRows& rows) { return rows.row_sinks(); });
  for (auto& [ordinal, rows] : devices) rows.take_rows();
  pass([&](DeviceRows& rows) { return rows.card_sinks(question.capacities); });
  for (auto& [ordinal, rows] : devices) {
    rows.take_cards();
    answer.devices.push_back(rows.take());
  }
  return answer;
}

}  // namespace gpumemtrace::analyzer::replay
