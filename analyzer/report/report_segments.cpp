// SPDX-License-Identifier: Apache-2.0
// The layout of blocks in the framework's segments: segments[].
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostPinsOfSegment = 3;

// The framework of one process on one device.
struct Place {
  const ReportProcess* process = nullptr;
  const FrameworkDevice* framework = nullptr;
  const OomSnapshot* failure = nullptr;  // the first one
};

const OomSnapshot* first_failure(const ProcessModel& model, std::int32_t device) {
  for (const OomSnapshot& snapshot : model.snapshots()) {
    if (snapshot.device == device && snapshot.segments) return &snapshot;
  }
  return nullptr;
}

// The device that ran out of memory first, else the one with the most reserved: a map of each would
// be more than all the rest of the report.
Place telling_place(const ReportContext& context) {
  Place place;
  const auto rank_of = [](const Place& one) {
    return std::pair(one.failure != nullptr, one.framework->reserved_peak_bytes);
  };
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [ordinal, framework] : process.model().memory().framework.devices()) {
      const Place one{&process, &framework, first_failure(process.model(), ordinal)};
      if (place.process == nullptr || rank_of(one) > rank_of(place)) place = one;
    }
  }
  return place;
}

class SegmentRows {
 public:
  SegmentRows(const ReportContext& context, const Place& place)
      : context_(context),
        process_(*place.process),
        blank_(context.row_on<rows::Segment>(process_, place.framework->device)) {}

  void add(rows::SnapshotAt at, std::uint64_t time, const SegmentMap& map) {
    blank_.at = at;
    blank_.time_ns = process_.known_time_ns(time);
    for (const MappedSegment& segment : map.segments) {
      rows::Segment row = blank_;
      row.address = segment.address;
      row.bytes = segment.bytes;
      row.allocated_bytes = segment.allocated_bytes;
      row.unusable_bytes = segment.stranded_bytes;
      row.pinned_by = pinning_blocks(context_, process_, segment.pins, kMostPinsOfSegment);
      for (const SegmentRun& run : segment.runs) {
        row.runs.push_back({run.bytes, run.allocated_bytes, static_cast<Category>(run.category)});
      }
      list_.push_back(std::move(row));
    }
    if (map.further_segments == 0) return;
    rows::Segment rest = blank_;
    rest.segments = map.further_segments;
    rest.bytes = map.further_bytes;
    rest.allocated_bytes = map.further_allocated_bytes;
    rest.unusable_bytes = map.further_stranded_bytes;
    list_.push_back(std::move(rest));
  }
  [[nodiscard]] std::vector<rows::Segment> take() { return std::move(list_); }

 private:
  const ReportContext& context_;
  const ReportProcess& process_;
  rows::Segment blank_;
  std::vector<rows::Segment> list_;
};

}  // namespace

std::vector<rows::Segment> report_segments(const ReportContext& context) {
  const Place place = telling_place(context);
  if (place.process == nullptr) return {};
  const HolderSums& holders = place.process->model().holders();
  const std::int32_t device = place.framework->device;
  SegmentRows list(context, place);
  const PeakSnapshot& peak = place.framework->blocks->peak;
  if (peak.happened() && !peak.is_restored()) {
    list.add(rows::SnapshotAt::kPeak, peak.time(), holders.segments_at(peak, device));
  }
  const PeakSnapshot& worst = place.framework->worst;
  if (worst.bytes() != 0 && worst.time() != peak.time()) {
    list.add(rows::SnapshotAt::kWorst, worst.time(), holders.segments_at(worst, device));
  }
  if (place.failure != nullptr) {
    list.add(rows::SnapshotAt::kOom, place.failure->parts.time, *place.failure->segments);
  }
  return list.take();
}

}  // namespace gpumemtrace::analyzer
