// SPDX-License-Identifier: Apache-2.0
// The curves of a run over time, and its steps.
#include <algorithm>

#include "analyzer/report/category_sums.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The parts of a timeline: a name each, with one value for each bucket.
using Parts = std::vector<std::pair<std::string, std::vector<std::uint64_t>>>;

Parts parts_by_category(const Timeline& timeline, std::size_t buckets) {
  Parts parts;
  for (const auto& [name, bytes] : CategorySums().row()) {
    parts.emplace_back(name, std::vector<std::uint64_t>(buckets));
  }
  for (const Timeline::Part& part : timeline.parts()) {
    // The category of unknown use has id 0 and is the last part.
    parts[part.id == 0 ? kCategories - 1 : part.id - 1].second = part.bytes;
  }
  return parts;
}

std::string owner_of(const ReportContext& context, const ReportProcess& process,
                     const HolderKey& holder) {
  const std::string owner = context.identity_of(process, holder).owner;
  return owner.empty() ? "unknown" : owner;
}

Parts parts_by_owner(const ReportContext& context, const ReportProcess& process,
                     const Timeline& timeline) {
  std::map<std::string, std::vector<std::uint64_t>> by_owner;
  for (const Timeline::Part& part : timeline.parts()) {
    const HolderPart holder = holder_of_part(part.id);
    std::vector<std::uint64_t>& sums =
        by_owner[owner_of(context, process, {holder.group, holder.segment})];
    sums.resize(part.bytes.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.bytes[i];
  }
  return {by_owner.begin(), by_owner.end()};
}

// True if the driver was asked about every pool of the device.
bool knows_pools(const ProcessModel& model, std::int32_t device) {
  const ledger::MappedArray<PoolState>& pools = model.memory().pools.pools();
  return std::ranges::all_of(pools, [&](const PoolState& pool) {
    return pool.device != device || pool.is_imported || pool.sampled;
  });
}

// The buckets of a timeline, and the parts of each.
struct Buckets {
  std::vector<TimeBucket> list;
  Parts parts;
  std::size_t first = 0;  // index of the first bucket with data
  TimeGrid grid;

  // Halves the number of buckets by joining neighbours: the higher maximum stays, with its parts.
  void join_pairs() {
    const std::size_t count = (list.size() + 1) / 2;
    std::vector<TimeBucket> joined;
    std::vector<std::size_t> sources;
    for (std::size_t i = 0; i < count; ++i) {
      // A bucket before `first` has no data, so its neighbour is taken alone.
      const std::size_t one = std::max(2 * i, std::min(first, 2 * i + 1));
      const std::size_t other = std::min(2 * i + 1, list.size() - 1);
      sources.push_back(list[other].max_bytes > list[one].max_bytes ? other : one);
      joined.push_back(join(list[one], list[other]));
    }
    for (auto& [name, bytes] : parts) {
      for (std::size_t i = 0; i < count; ++i) bytes[i] = bytes[sources[i]];
      bytes.resize(count);
    }
    list = std::move(joined);
    first /= 2;
    grid.join_pairs();
  }
};

// Makes one row of timeline[], with at most `most` points.
class TimelineRow {
 public:
  TimelineRow(const ReportContext& context, const ReportProcess& process, const Account& account,
              std::size_t most)
      : context_(context),
        process_(process),
        account_(account),
        timeline_(account.timeline),
        most_(most) {
    knows_reserved_ = timeline_.knows_reserved() && (account.level != Level::kPool ||
                                                     knows_pools(process.model(), account.device));
  }

  [[nodiscard]] rows::Timeline row() {
    const bool is_framework = account_.level == Level::kFramework;
    auto row = context_.row_on<rows::Timeline>(process_, account_.device);
    row.level = account_.level;
    row.capacity_bytes = capacity();
    row.parts_by = is_framework ? rows::PartsBy::kCategory : rows::PartsBy::kOwner;
    row.is_exact = !is_inexact(process_, account_.level);
    const rows::NamedNumbers before = parts_before();
    const TimeGrid& grid = process_.model().accounts().time_grid();
    Buckets buckets{timeline_.buckets(grid), {}, timeline_.first(), grid};
    buckets.parts = is_framework ? parts_by_category(timeline_, buckets.list.size())
                                 : parts_by_owner(context_, process_, timeline_);
    while (buckets.list.size() > most_) buckets.join_pairs();
    rows::NamedNumbers names = before;
    for (const auto& [name, bytes] : buckets.parts) add_name(names, name);
    for (auto& [name, bytes] : names) bytes = 0;
    if (timeline_.before()) row.buckets.push_back(bucket_before(filled(names, before)));
    add_buckets(names, buckets, row.buckets);
    return row;
  }

 private:
  static void add_name(rows::NamedNumbers& names, const std::string& name) {
    const bool is_there =
        std::ranges::any_of(names, [&](const auto& known) { return known.first == name; });
    if (!is_there) names.emplace_back(name, 0);
  }
  // The parts `names` with the bytes that `values` has for them, 0 for others.
  static rows::NamedNumbers filled(rows::NamedNumbers names, const rows::NamedNumbers& values) {
    for (auto& [name, bytes] : names) {
      for (const auto& [known, value] : values) bytes += known == name ? value : 0;
    }
    return names;
  }

  [[nodiscard]] rows::OptionalNumber capacity() const {
    const auto& devices = process_.model().memory().devices.devices();
    const auto found = devices.find(account_.device);
    if (found == devices.end() || !found->second.described) return std::nullopt;
    return rows::number_or_none(found->second.total_bytes);
  }

  // The parts of the peak in the time that a checkpoint replaced, by name.
  [[nodiscard]] rows::NamedNumbers parts_before() const {
    if (!timeline_.before()) return {};
    const Holders holders =
        process_.model().holders().at(account_.peak_before_cut, account_.level, account_.device);
    if (account_.level == Level::kFramework) return categories_of(holders).row();
    std::map<std::string, std::uint64_t> by_owner;
    for (const auto& [holder, tally] : holders) {
      by_owner[owner_of(context_, process_, holder)] += tally.bytes;
    }
    return {by_owner.begin(), by_owner.end()};
  }

  [[nodiscard]] rows::TimelineBucket bucket_before(rows::NamedNumbers parts) const {
    const RunStatistics& statistics = process_.model().statistics();
    rows::TimelineBucket row =
        bucket_row(*timeline_.before(), statistics.first_time, statistics.checkpoint_time);
    row.min_bytes.reset();
    // A checkpoint does not keep the peak of the summed reserved bytes of the driver's pools.
    if (account_.level != Level::kFramework) row.reserved_bytes.reset();
    row.parts = std::move(parts);
    return row;
  }

  [[nodiscard]] rows::TimelineBucket bucket_row(const TimeBucket& bucket, std::uint64_t start,
                                                std::uint64_t end) const {
    rows::TimelineBucket row;
    row.start_ns = process_.known_time_ns(start);
    row.end_ns = process_.known_time_ns(end);
    row.min_bytes = bucket.min_bytes;
    row.max_bytes = bucket.max_bytes;
    row.max_time_ns = process_.known_time_ns(std::max(bucket.max_time, start));
    row.last_bytes = bucket.last_bytes;
    if (knows_reserved_) row.reserved_bytes = bucket.reserved_bytes;
    return row;
  }

  // Adds a row for each bucket. A bucket without a change extends the row before it if that has no
  // change either.
  void add_buckets(const rows::NamedNumbers& names, const Buckets& buckets,
                   std::vector<rows::TimelineBucket>& list) const {
    const RunStatistics& statistics = process_.model().statistics();
    const Accounts& accounts = process_.model().accounts();
    const TimeGrid& grid = buckets.grid;
    // The last bucket is not shown if the report has a window: it has all memory after the window.
    const std::size_t count = buckets.list.size() - (accounts.window_is_over() ? 1 : 0);
    const std::uint64_t last = std::min(statistics.last_time, accounts.window().last);
    bool was_quiet = false;
    for (std::size_t i = buckets.first; i < count; ++i) {
      const TimeBucket& bucket = buckets.list[i];
      const std::uint64_t end = std::min(grid.start_of(i + 1), last);
      // Empty buckets before the first allocation are left out.
      if (bucket.is_quiet && list.empty() && bucket.max_bytes == 0) continue;
      if (bucket.is_quiet && was_quiet) {
        list.back().end_ns = process_.known_time_ns(end);
        continue;
      }
      was_quiet = bucket.is_quiet;
      const bool follows_cut = i == buckets.first && timeline_.before();
      const std::uint64_t start = follows_cut ? statistics.checkpoint_time : grid.start_of(i);
      list.push_back(bucket_row(bucket, start, end));
      rows::NamedNumbers values = names;
      for (auto& [name, bytes] : values) {
        for (const auto& [part, course_of_part] : buckets.parts) {
          if (part == name) bytes = course_of_part[i];
        }
      }
      list.back().parts = std::move(values);
    }
  }

  const ReportContext& context_;
  const ReportProcess& process_;
  const Account& account_;
  const Timeline& timeline_;
  std::size_t most_;
  bool knows_reserved_ = false;
};

}  // namespace

std::vector<rows::Timeline> report_timeline(const ReportContext& context, std::size_t most) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Timeline>& list) {
    const Accounts& accounts = process.model().accounts();
    if (accounts.window_is_to_come()) return;
    for (const Account& account : accounts.accounts()) {
      if (account.level == Level::kMapping || !account.peak.happened()) continue;
      rows::Timeline row = TimelineRow(context, process, account, most).row();
      if (!row.buckets.empty()) list.push_back(std::move(row));
    }
  };
  return context.gather<rows::Timeline>(add_rows);
}

namespace {

// True if steps are measured by the framework's blocks; without a framework, they are measured by
// the driver's memory and pools.
bool counts_blocks(const ReportProcess& process) {
  return !process.model().memory().framework.devices().empty();
}

void fill(rows::Interval& row, const ReportProcess& process, const Interval& interval) {
  const bool of_blocks = counts_blocks(process);
  const IntervalUse& use = of_blocks ? interval.framework : interval.driver;
  row.process = process.id;
  row.index = interval.index;
  row.start_ns = process.time_ns(interval.start);
  row.end_ns = process.time_ns(interval.end);
  row.peak_bytes = use.peak_bytes;
  row.live_bytes_at_end = use.live_bytes_at_end;
  row.allocations = use.allocations;
  row.transfers_bytes = interval.transfers_bytes;
  row.is_exact = !is_inexact(process, of_blocks ? Level::kFramework : Level::kDriver);
}

rows::RangesOfName sums_row(const ReportProcess& process, const rows::OptionalText& name,
                            const IntervalSums& sums) {
  const bool of_blocks = counts_blocks(process);
  const IntervalSums::Use& use = of_blocks ? sums.framework : sums.driver;
  return {process.id,
          name,
          sums.count,
          use.peak_bytes,
          use.allocated_bytes,
          static_cast<std::int64_t>(use.live_delta_bytes),
          !is_inexact(process, of_blocks ? Level::kFramework : Level::kDriver)};
}

}  // namespace

std::vector<rows::Step> report_steps(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Step>& list) {
    const Steps& steps = process.model().program().steps();
    if (!steps.source()) return;
    for (const Interval& step : steps.steps()) {
      rows::Step row;
      fill(row, process, step);
      row.is_inferred = *steps.source() == StepSource::kPeriod;
      row.source = name_of(*steps.source());
      list.push_back(std::move(row));
    }
  };
  return context.gather<rows::Step>(add_rows);
}

std::vector<rows::Range> report_ranges(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Range>& list) {
    const Steps& steps = process.model().program().steps();
    for (const Interval& range : steps.ranges()) {
      rows::Range row;
      fill(row, process, range);
      row.name = steps.name_of(range.name);
      list.push_back(std::move(row));
    }
  };
  return context.gather<rows::Range>(add_rows);
}

std::vector<rows::RangesOfName> report_ranges_by_name(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::RangesOfName>& list) {
    const IntervalsByName& sums = process.model().program().steps().ranges_by_name();
    for (const auto& [name, of_name] : sums.rows()) {
      list.push_back(sums_row(process, name, of_name));
    }
    if (sums.rest().count != 0) list.push_back(sums_row(process, std::nullopt, sums.rest()));
  };
  return context.gather<rows::RangesOfName>(add_rows);
}

std::vector<rows::Mark> report_marks(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Mark>& list) {
    for (const NamedMark& mark : process.model().program().steps().marks().all()) {
      list.push_back({process.id, mark.name, process.known_time_ns(mark.time),
                      std::string(name_of(mark.source))});
    }
  };
  return context.gather<rows::Mark>(add_rows);
}

}  // namespace gpumemtrace::analyzer
