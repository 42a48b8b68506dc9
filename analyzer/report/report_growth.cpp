// SPDX-License-Identifier: Apache-2.0
// Places whose live memory rises throughout the run: leaks.growth[].
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/report/place_key.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kParts = 4;  // of the watched stretches, in each of which memory must rise
constexpr std::size_t kLeastStretches = 8;
constexpr std::uint64_t kLeastAllocations =
    32;  // of the process, else there is no loop to speak of

struct Place {
  std::vector<History::Stretch> stretches;
  std::string stack;  // of the group that rose most, of equals the one that allocated most
  std::pair<std::uint64_t, std::uint64_t> most;  // by which it rose, how often it allocated
  Releases freed;
};

// The part of the run that is looked at: from the end of the warm-up to the place's last
// allocation. What is freed afterwards, at the end of the program, does not make growth undone.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Growth {
  Window window;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;  // by which their number rose likewise
  std::uint64_t rises = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees_before = 0;  // the window, in it, and after it
  std::uint64_t frees = 0;
  std::uint64_t frees_after = 0;
};

// The other places of the level on the device that went on allocating.
struct Others {
  std::uint64_t count = 0;
  std::uint64_t growing = 0;
};

std::size_t warmup_end(const History& history, const Thresholds& thresholds) {
  return static_cast<std::size_t>(thresholds[Threshold::kGrowthWarmupShare] *
                                  static_cast<double>(history.flow().size()));
}

// The stretch of the last allocation itself is left out: memory may end in it, too.
Window window_of(const std::vector<History::Stretch>& stretches, std::size_t begin) {
  std::size_t end = stretches.size() - 1;
  while (end > 0 && stretches[end].allocations == 0) --end;
  return {begin, std::max(begin, end)};
}

// A program that builds up its data frees little. Without frees there is no steady state in which
// growth could be told from that.
bool is_steady(const History& history, const Window& window, const Thresholds& thresholds) {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  for (std::size_t i = window.begin; i < window.end; ++i) {
    allocations += history.flow()[i].allocations;
    frees += history.flow()[i].frees;
  }
  return allocations >= kLeastAllocations &&
         static_cast<double>(frees) >=
             thresholds[Threshold::kGrowthFreeShare] * static_cast<double>(allocations);
}

// What is live at a stretch's lowest moment and at every lower moment later has come to stay: one
// number a stretch of the window.
std::vector<std::uint64_t> what_stays(const std::vector<History::Stretch>& stretches,
                                      const Window& window, std::uint64_t History::Stretch::*low) {
  std::vector<std::uint64_t> stays(window.end - window.begin);
  std::uint64_t lowest = stretches[window.end - 1].*low;
  for (std::size_t i = stays.size(); i-- > 0;) {
    lowest = std::min(lowest, stretches[window.begin + i].*low);
    stays[i] = lowest;
  }
  return stays;
}

// By which it rose for good.
std::uint64_t rise_of(const std::vector<History::Stretch>& stretches, const Window& window) {
  if (window.begin == window.end) return 0;
  const std::vector<std::uint64_t> stays =
      what_stays(stretches, window, &History::Stretch::low_bytes);
  return stays.back() - stays.front();
}

// It must rise in every part of the window: a sawtooth rises for good in its last tooth alone, and
// a cache that fills once rises in the beginning.
Growth growth_of(const std::vector<History::Stretch>& stretches, const Window& window) {
  Growth growth;
  growth.window = window;
  const std::size_t length = window.end - window.begin;
  if (length < kLeastStretches || length * 2 < stretches.size() - window.begin) return growth;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool before = i < window.begin;
    const bool inside = !before && i < window.end;
    (before   ? growth.frees_before
     : inside ? growth.frees
              : growth.frees_after) += stretches[i].frees;
    if (inside) growth.allocations += stretches[i].allocations;
  }
  const std::vector<std::uint64_t> stays =
      what_stays(stretches, window, &History::Stretch::low_bytes);
  std::array<bool, kParts> rose{};
  for (std::size_t i = 1; i < length; ++i) {
    if (stays[i] == stays[i - 1]) continue;
    ++growth.rises;
    rose[i * kParts / length] = true;
  }
  const bool everywhere = std::all_of(rose.begin(), rose.end(), [](bool part) { return part; });
  if (!everywhere) return growth;
  const std::vector<std::uint64_t> count =
      what_stays(stretches, window, &History::Stretch::low_count);
  growth.bytes = stays.back() - stays.front();
  growth.blocks = count.back() - count.front();
  return growth;
}

void add(std::vector<History::Stretch>& sums, const std::vector<History::Stretch>& more) {
  sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    sums[i].low_bytes += more[i].low_bytes;
    sums[i].low_count += more[i].low_count;
    sums[i].allocations += more[i].allocations;
    sums[i].frees += more[i].frees;
  }
}

std::map<PlaceKey, Place> places_of(const ReportContext& context, const ReportProcess& process,
                                    std::size_t begin) {
  const Accounts& accounts = process.model().accounts();
  std::map<PlaceKey, Place> places;
  for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
    const Group& group = accounts.group(i);
    const Level level = level_of(group.key.kind);
    if (level == Level::kMapping || level == Level::kImported) continue;
    if (group.segments != 0) continue;  // the framework's blocks in them are looked at
    const std::vector<History::Stretch> stretches = accounts.history().stretches_of(i);
    const bool allocates =
        std::any_of(stretches.begin() + static_cast<std::ptrdiff_t>(begin), stretches.end(),
                    [](const History::Stretch& stretch) { return stretch.allocations != 0; });
    if (!allocates) continue;
    PlaceKey key{group.key.device, level, context.identity_of(process, {i, false})};
    const std::string stack = std::move(key.identity.stack);
    key.identity.stack.clear();
    Place& place = places[key];
    add(place.stretches, stretches);
    place.freed.merge(group.freed);
    const std::pair rank(rise_of(stretches, window_of(stretches, begin)), group.allocations);
    if (rank > place.most) {
      place.most = rank;
      place.stack = stack;
    }
  }
  return places;
}

struct StepsPassed {
  std::uint64_t count = 0;
  bool inferred = false;  // the job did not tell its steps
};

// By their numbers: of very many steps the report tells only some.
StepsPassed steps_between(const Json& steps, const std::string& process, std::uint64_t begin_ns,
                          std::uint64_t end_ns) {
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  StepsPassed passed;
  for (const Json& step : steps) {
    if (step.at("process") != process || !step.at("end_ns").is_number()) continue;
    const auto end = step.at("end_ns").get<std::uint64_t>();
    if (end <= begin_ns || end > end_ns) continue;
    const auto index = step.at("index").get<std::uint64_t>();
    first = std::min(first.value_or(index), index);
    last = std::max(last, index);
    passed.inferred = passed.inferred || step.at("inferred").get<bool>();
  }
  if (first) passed.count = last - *first + 1;
  return passed;
}

// When the device is full if memory goes on rising so; null where its size is not known.
Json forecast_json(const Json& report, const Json& device, std::uint64_t bytes,
                   std::uint64_t begin_ns, std::uint64_t end_ns) {
  for (const Json& row : report.at("devices")) {
    if (row.at("id") != device || !row.at("total_bytes").is_number()) continue;
    if (!row.at("physical_peak").is_object() || bytes == 0 || end_ns <= begin_ns) return nullptr;
    const auto total = row.at("total_bytes").get<double>();
    const auto used = row.at("physical_peak").at("bytes").get<double>();
    const double rate = static_cast<double>(bytes) / static_cast<double>(end_ns - begin_ns);
    const double forecast = static_cast<double>(end_ns) + std::max(0.0, total - used) / rate;
    constexpr double kTenYearsNs = 3.2e17;
    return forecast < kTenYearsNs ? Json(static_cast<std::uint64_t>(forecast)) : Json(nullptr);
  }
  return nullptr;
}

using GrowthByPlace = std::map<PlaceKey, Growth>;

// Where their blocks are freed again while this place's memory grows, nothing keeps them together.
Others others_of(const PlaceKey& key, const GrowthByPlace& growths) {
  Others others;
  for (const auto& [other, growth] : growths) {
    if (other == key || other.device != key.device || other.level != key.level) continue;
    if (growth.allocations == 0) continue;
    ++others.count;
    if (growth.bytes != 0) ++others.growing;
  }
  return others;
}

Json growth_row(const ReportContext& context, const ReportProcess& process, const Json& report,
                const std::pair<const PlaceKey, Place>& place, const Growth& growth,
                const Others& others) {
  const auto& [key, what] = place;
  const std::vector<History::Flow>& flow = process.model().accounts().history().flow();
  const std::uint64_t begin_ns = process.time_ns(flow[growth.window.begin].end);
  const std::uint64_t end_ns = process.time_ns(flow[growth.window.end - 1].end);
  const StepsPassed passed = steps_between(report.at("steps"), process.id, begin_ns, end_ns);
  const std::uint64_t steps = passed.count;
  const bool told_by_steps = steps != 0 && !passed.inferred;
  const Json device = context.device_id(process, key.device);
  const bool of_device = key.level != Level::kHost && key.level != Level::kManaged;
  Json row = {
      {"process", process.id},
      {"device", device},
      {"level", name_of(key.level)},
      {"bytes_per_step",
       steps == 0 ? Json(nullptr)
                  : Json(static_cast<double>(growth.bytes) / static_cast<double>(steps))},
      {"steps", steps == 0 ? Json(nullptr) : Json(steps)},
      {"live_bytes", what.stretches.back().low_bytes},
      {"confidence", told_by_steps ? "inferred" : "heuristic"},
      {"forecast_ns",
       of_device ? forecast_json(report, device, growth.bytes, begin_ns, end_ns) : Json(nullptr)},
      {"owner", owner_json(key.identity)},
      {"site", site_json(key.identity)},
      {"stack", text_or_null(what.stack)},
      {"bytes", growth.bytes},
      {"rises", growth.rises},
      {"allocations", growth.allocations},
      {"blocks", growth.blocks},
      {"begin_ns", begin_ns},
      {"end_ns", end_ns},
      {"frees_before", growth.frees_before},
      {"frees", growth.frees},
      {"frees_after", growth.frees_after},
      {"other_places", others.count},
      {"other_places_growing", others.growing}};
  add_releases(row, "freed", context, process, &what.freed);
  mark_inexact(row, is_inexact(process, key.level));
  return row;
}

}  // namespace

Json report_growth(const ReportContext& context, const Json& report, const Thresholds& thresholds) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    const History& history = process.model().accounts().history();
    const std::size_t begin = warmup_end(history, thresholds);
    const std::map<PlaceKey, Place> places = places_of(context, process, begin);
    GrowthByPlace growths;
    for (const auto& [key, place] : places) {
      growths[key] = growth_of(place.stretches, window_of(place.stretches, begin));
    }
    for (const auto& place : places) {
      const Growth& growth = growths.at(place.first);
      if (growth.bytes < thresholds.bytes(Threshold::kGrowthBytes) ||
          growth.rises < thresholds.count(Threshold::kGrowthRises) || growth.bytes == 0 ||
          !is_steady(history, growth.window, thresholds)) {
        continue;
      }
      rows.push_back(
          growth_row(context, process, report, place, growth, others_of(place.first, growths)));
    }
  }
  return sorted_rows(std::move(rows), "bytes");
}

}  // namespace gpumemtrace::analyzer
