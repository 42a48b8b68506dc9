// SPDX-License-Identifier: Apache-2.0
// Other settings of PyTorch's allocator, replayed for the findings that ask for them: as many, over
// as many possible sizes, as the time of the analysis itself allows.
#include <algorithm>

#include "analyzer/replay/replayed_settings.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// In the order in which they are tried. The first needs no knowledge of the program.
constexpr const char* kSettings[] = {"expandable_segments:True", "", "max_split_size_mb:128",
                                     "roundup_power2_divisions:4"};
// The number of them without a refused request.
constexpr std::size_t kSettingsForPeak = 2;

// Times of steps on a core of 2024, in nanoseconds: only their proportions count.
constexpr std::uint64_t kAnalysisNs = 2'500'000;  // of any trace
constexpr std::uint64_t kRecordNs =
    250;  // more, a record of a run's first ones; measured: 300 to 2,300
constexpr std::uint64_t kFirstRecords = 50'000;
constexpr std::uint64_t kLaterRecordNs = 50;
constexpr std::uint64_t kProofNs = 220;  // a block handed out or taken back
constexpr std::uint64_t kReplayNs = 70;  // as above, in one replay

// Samples of sizes of either kind, the most first.
constexpr std::uint32_t kSamples[] = {4, 2, 1};

std::uint64_t block_events(const ProcessModel& model) {
  std::uint64_t allocations = 0;
  for (const Group& group : model.accounts().groups()) {
    if (level_of(group.key.kind) == Level::kFramework) allocations += group.allocations;
  }
  return 2 * allocations;
}

// Estimated, not timed, so that the same trace gives the same report. Empty if even one setting
// takes too long.
replay::SettingsQuestion affordable(const ReportProcess& process, bool was_refused) {
  const std::uint64_t events = block_events(process.model());
  const std::uint64_t records = process.process->records_done();
  const std::uint64_t first_records = std::min(records, kFirstRecords);
  const std::uint64_t allowed =
      kAnalysisNs + kRecordNs * first_records + kLaterRecordNs * (records - first_records);
  replay::SettingsQuestion question;
  question.measures_refusals = was_refused;
  // Both ends of the sizes, each in the first gaps and in another order of segments.
  constexpr std::uint32_t kEnds = 2;
  constexpr std::uint64_t kOrders = 2;  // only one for expandable segments
  std::uint64_t spent = events * kProofNs;
  if (was_refused) spent += events * kReplayNs * kEnds * kOrders;
  const std::size_t most = was_refused ? std::size(kSettings) : kSettingsForPeak;
  for (const std::uint32_t samples : kSamples) {
    const std::uint64_t first = events * kReplayNs * (kEnds + 2 * samples);
    if (spent + first > allowed) continue;
    question.samples = {samples, kEnds + 2 * samples};
    question.settings.emplace_back(kSettings[0]);
    spent += first;
    while (question.settings.size() < most && spent + kOrders * first <= allowed) {
      spent += kOrders * first;
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
