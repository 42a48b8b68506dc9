// SPDX-License-Identifier: Apache-2.0
// Replays of the framework's allocator under other settings.
#include <algorithm>
#include <array>
#include <set>

#include "analyzer/replay/setting_replays.hpp"
#include "analyzer/replay/what_if.hpp"
#include "analyzer/report/report_context.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::WhatIfRecorded recorded_row(const replay::DeviceAnswer& device) {
  rows::WhatIfRecorded out;
  if (!device.rows.empty()) {
    out.policy = device.rows.front().policy;
    out.options = device.rows.front().options.value_or("");
  }
  if (device.is_native) out.proven = device.proof.holds();
  out.events = device.proof.events;
  out.mismatches = device.proof.mismatches;
  out.first_mismatch = rows::text_or_none(device.proof.first_mismatch);
  out.classes = device.classes;
  out.requested_sizes = device.sizes_known ? "recorded" : "unknown";
  out.changes = device.changes;
  out.memory_fraction = device.memory_fraction;
  return out;
}

constexpr std::array<std::pair<replay::Cause, const char*>, 6> kCauses = {
    {{replay::Cause::kRounding, "rounding"},
     {replay::Cause::kPieces, "too_small_pieces"},
     {replay::Cause::kOversize, "oversize_blocks"},
     {replay::Cause::kOtherPool, "other_pool"},
     {replay::Cause::kOtherStreams, "other_streams"},
     {replay::Cause::kRestOfSegment, "rest_of_new_segment"}}};
constexpr std::size_t kMostLines = 10;

// The places (lines) that blocks of one process are counted under, by the stacks recorded with the
// blocks: blocks of PyTorch's own threads count under the stack of the thread that waited.
class BlockPlaces {
 public:
  BlockPlaces(const ReportContext& context, const ReportProcess& process)
      : context_(context), process_(process) {
    const ProcessModel& model = process.model();
    const std::vector<Group>& groups = model.accounts().groups();
    for (std::uint32_t group = 0; group < groups.size(); ++group) {
      const GroupKey& key = groups[group].key;
      if (key.kind != Kind::kBlock) continue;
      const JoinedStack* const joined = model.program().backward_stacks().find(key.site.stack);
      const Identity identity = context.identity_of(process, {group, false});
      places_[joined != nullptr ? joined->own : key.site.stack].insert(identity);
      knows_some_ = knows_some_ || is_known(identity);
    }
  }
  [[nodiscard]] bool knows_some() const { return knows_some_; }
  // The line that the blocks of a stack count under. If there are several lines or none, the
  // framework with this stack takes the line's place. No value if neither line nor stack is known.
  [[nodiscard]] std::optional<Identity> find(trace::StackId stack) const {
    const auto found = places_.find(stack);
    const bool is_one = found != places_.end() && found->second.size() == 1;
    Identity identity =
        is_one ? *found->second.begin() : context_.identity_of_framework(process_, stack);
    return is_known(identity) ? std::optional(std::move(identity)) : std::nullopt;
  }

 private:
  [[nodiscard]] static bool is_known(const Identity& identity) {
    return identity.has_site || !identity.stack.empty();
  }

  const ReportContext& context_;
  const ReportProcess& process_;
  std::map<trace::StackId, std::set<Identity>> places_;
  bool knows_some_ = false;
};

// Rows for the places with most bytes, and one row `other` for the remainder.
std::vector<rows::WhatIfLine> line_rows(const replay::UnusableByStack& by_stack,
                                        const BlockPlaces& places) {
  rows::WhatIfLine rest;
  rest.origin.owner = "other";
  const auto add = [](rows::WhatIfLine& line, std::uint64_t bytes, std::uint64_t releasable) {
    line.bytes += bytes;
    line.releasable_bytes += releasable;
  };
  std::map<Identity, rows::WhatIfLine> by_place;
  for (const auto* entry : largest_first(by_stack, &replay::UnusableBytes::bytes)) {
    const auto& [stack, sum] = *entry;
    const std::optional<Identity> place = stack ? places.find(*stack) : std::nullopt;
    add(place ? by_place[*place] : rest, sum.bytes, sum.releasable);
  }
  std::vector<rows::WhatIfLine> lines;
  for (auto& [identity, line] : by_place) {
    line.origin = origin_of(identity);
    lines.push_back(std::move(line));
  }
  sort_rows(lines, &rows::WhatIfLine::bytes);
  while (lines.size() > kMostLines) {
    add(rest, lines.back().bytes, lines.back().releasable_bytes);
    lines.pop_back();
  }
  lines.push_back(std::move(rest));
  return lines;
}

void add_unusable(const replay::Unusable& unusable, const BlockPlaces& places, rows::WhatIf& row) {
  if (!places.knows_some()) row.lines_reason = "no call stacks were recorded with the blocks";
  for (const auto& [cause, name] : kCauses) {
    const auto found = unusable.find(cause);
    const replay::UnusableByStack& by_stack =
        found == unusable.end() ? replay::UnusableByStack() : found->second;
    rows::WhatIfUnusable& sum = row.unusable_at_peak.emplace_back();
    sum.cause = name;
    for (const auto& [stack, part] : by_stack) sum.bytes += part.bytes;
    if (places.knows_some()) sum.lines = line_rows(by_stack, places);
  }
}

}  // namespace

std::vector<rows::WhatIf> report_what_if(const ReportContext& context,
                                         const replay::Question& question) {
  std::vector<rows::WhatIf> out;
  for (const ReportProcess& process : context.processes()) {
    const replay::Answer answer = replay::what_if(process.process->file(), question);
    for (const replay::DeviceAnswer& device : answer.devices) {
      auto row = context.row_on<rows::WhatIf>(process, device.device);
      row.recorded = recorded_row(device);
      row.rows.assign(device.rows.begin(), device.rows.end());
      row.ideal.live_peak_bytes = device.live_peak_bytes;
      row.ideal.packed_bytes = device.packed_bytes;
      if (device.packed_bytes) row.ideal.packed_window = device.packed_events;
      if (device.unusable) {
        add_unusable(*device.unusable, BlockPlaces(context, process), row);
      } else {
        row.lines_reason = "the recorded run is not proven";
      }
      out.push_back(std::move(row));
    }
  }
  return out;
}

namespace {

// The allocator settings that are tried, in this order. The first needs no knowledge of the
// program.
constexpr const char* kSettings[] = {"expandable_segments:True", "", "max_split_size_mb:128",
                                     "roundup_power2_divisions:4"};
// The number of settings, from the first on, that are tried if no request of the program was
// refused.
constexpr std::size_t kSettingsForPeak = 2;

// Estimated times of the steps of a replay in nanoseconds, on a core of 2024: only their
// proportions count.
constexpr std::uint64_t kAnalysisNs = 2'500'000;  // the analysis of a trace without records
constexpr std::uint64_t kRecordNs =
    250;  // analysis of each of the first kFirstRecords records; measured: 300 to 2,300 ns
constexpr std::uint64_t kFirstRecords = 50'000;
constexpr std::uint64_t kLaterRecordNs = 50;
// proof that the recorded run is replayed right, for each block event
constexpr std::uint64_t kProofNs = 220;
constexpr std::uint64_t kReplayNs = 70;  // one replay, for each block event (allocation or free)

// The numbers of sizes to try between the least and the largest possible one, for each of two ways
// to choose sizes. The first of these numbers that fits in the allowed time is used.
constexpr std::uint32_t kSamples[] = {4, 2, 1};

std::uint64_t block_events(const ProcessModel& model) {
  std::uint64_t allocations = 0;
  for (const Group& group : model.accounts().groups()) {
    if (level_of(group.key.kind) == Level::kFramework) allocations += group.allocations;
  }
  return 2 * allocations;
}

// The settings and samples that can be replayed in the allowed time. Times are estimated, not
// measured, so that the same trace gives the same report. Empty if even one setting takes too long.
replay::SettingsQuestion affordable(const ReportProcess& process, bool was_refused) {
  const std::uint64_t events = block_events(process.model());
  const std::uint64_t records = process.process->records_done();
  const std::uint64_t first_records = std::min(records, kFirstRecords);
  const std::uint64_t allowed =
      kAnalysisNs + kRecordNs * first_records + kLaterRecordNs * (records - first_records);
  replay::SettingsQuestion question;
  question.measures_refusals = was_refused;
  // Requests of unknown size are replayed with their least and their largest size, each with
  // segments in the first gaps and in another order.
  constexpr std::uint32_t kExtremeSizes = 2;
  constexpr std::uint64_t kSegmentOrders = 2;  // expandable segments have only one order
  std::uint64_t spent = events * kProofNs;
  if (was_refused) spent += events * kReplayNs * kExtremeSizes * kSegmentOrders;
  const std::size_t most = was_refused ? std::size(kSettings) : kSettingsForPeak;
  for (const std::uint32_t samples : kSamples) {
    const std::uint64_t first = events * kReplayNs * (kExtremeSizes + 2 * samples);
    if (spent + first > allowed) continue;
    question.samples = {samples, kExtremeSizes + 2 * samples};
    question.settings.emplace_back(kSettings[0]);
    spent += first;
    while (question.settings.size() < most && spent + kSegmentOrders * first <= allowed) {
      spent += kSegmentOrders * first;
      question.settings.emplace_back(kSettings[question.settings.size()]);
    }
    break;
  }
  return question;
}

rows::ReplayedAllocator allocator_row(const ReportContext& context, const ReportProcess& process,
                                      const replay::DeviceOutcome& outcome) {
  auto row = context.row_on<rows::ReplayedAllocator>(process, outcome.device);
  row.is_expandable = outcome.is_expandable;
  row.reserved_peak_bytes = outcome.reserved_peak_bytes;
  row.retries = outcome.retries;
  for (const replay::DeviceOutcome::Refused& refused : outcome.refused) {
    row.refused.push_back({process.known_time_ns(refused.request.time), refused.request.bytes,
                           refused.is_replayed, refused.largest_met_bytes});
  }
  for (const replay::SettingOutcome& setting : outcome.others) {
    row.others.push_back({setting.options, setting.low_bytes, setting.high_bytes,
                          setting.most_retries, setting.is_sampled, setting.loses_requests,
                          setting.meets});
  }
  return row;
}

}  // namespace

// Replays the framework's allocators on the devices in `allocators`. A process is left out if that
// would take too long.
std::vector<rows::ReplayedAllocator> report_replays(
    const ReportContext& context, const std::vector<rows::AllocatorToReplay>& allocators) {
  std::vector<rows::ReplayedAllocator> list;
  for (const ReportProcess& process : context.processes()) {
    std::set<std::int32_t> devices;
    bool was_refused = false;
    for (const auto& [ordinal, framework] : process.model().memory().framework.devices()) {
      for (const rows::AllocatorToReplay& wanted : allocators) {
        if (wanted.process != process.id ||
            wanted.device != context.device_id(process, framework.device)) {
          continue;
        }
        devices.insert(framework.device);
        was_refused = was_refused || wanted.was_refused;
      }
    }
    if (devices.empty()) continue;
    replay::SettingsQuestion question = affordable(process, was_refused);
    if (question.settings.empty()) continue;
    question.devices = std::move(devices);
    for (const replay::DeviceOutcome& outcome :
         replay::replay_settings(process.process->file(), question)) {
      list.push_back(allocator_row(context, process, outcome));
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
