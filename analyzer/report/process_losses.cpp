// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/process_losses.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

void add_activity_losses(const Activity& activity, Losses& losses) {
  const JoinCounts& counts = activity.counts();
  losses.add(Loss::cupti_dropped_records, activity.dropped().by_cupti);
  losses.add(Loss::activity_dropped, activity.dropped().by_recorder);
  losses.add(Loss::activity_before_checkpoint, activity.compacted_records());
  losses.add(Loss::activity_unjoined, counts.all_unjoined());
  losses.add(Loss::activity_inferred, counts.inferred);
  losses.add(Loss::copy_memory_disagreements, counts.kind_disagreements);
}

Severity severity_of(LossSeverity severity) {
  switch (severity) {
    case LossSeverity::data_loss:
      return Severity::kError;
    case LossSeverity::inferred:
      return Severity::kWarning;
    case LossSeverity::info:
      break;
  }
  return Severity::kInfo;
}

}  // namespace

Losses losses_of(const Process& process, rows::TraceEnd end) {
  const RunStatistics& statistics = process.model().statistics();
  const trace::ReadLosses& read = process.read_losses();
  const trace::TraceFile& file = process.file();
  Losses losses;
  // The ring counts all events that were dropped in the run; gap records in the trace have the
  // times and kinds of drops.
  losses.add(Loss::dropped_allocations, std::max(statistics.dropped.allocations, file.dropped(0)));
  losses.add(Loss::dropped_frees, std::max(statistics.dropped.frees, file.dropped(1)));
  losses.add(Loss::dropped_copies, std::max(statistics.dropped.copies, file.dropped(2)));
  losses.add(Loss::dropped_blocks, std::max(statistics.dropped.blocks, file.dropped(3)));
  losses.add(Loss::dropped_others, std::max(statistics.dropped.others, file.dropped(4)));
  losses.add(Loss::stacks_left_out, statistics.dropped.stacks);
  losses.add(Loss::calls_taken_for_parts,
             std::max(statistics.dropped.parts, file.calls_taken_for_parts()));
  losses.add(Loss::recording_disabled, statistics.stopped_because.empty() ? 0 : 1);
  losses.add(Loss::paused, statistics.pauses);
  losses.add(Loss::corrupt_blocks, read.corrupt_blocks);
  // A truncated end is no loss if the ring exists: the ring still has the records that a killed
  // process was about to pack.
  losses.add(Loss::truncated_tail, file.has_ring() ? 0 : read.truncated_tail);
  losses.add(Loss::missing_chunks, read.missing_chunks);
  losses.add(Loss::missing_ring, end == rows::TraceEnd::kUnknown && !file.has_ring() ? 1 : 0);
  losses.add(Loss::malformed_records, read.malformed_records);
  losses.add(Loss::unknown_records, read.unknown_records);
  losses.add(Loss::unfinished_calls, statistics.unfinished_calls);
  losses.add(Loss::clock_not_calibrated, process.clock().calibrated() ? 0 : 1);
  losses.add(Loss::order_repaired, statistics.order_repaired);
  losses.add(Loss::live_address_allocated, statistics.live_address_allocated);
  losses.add(Loss::unknown_frees, statistics.unknown_frees);
  losses.add(Loss::unknown_context, statistics.unknown_context);
  losses.add(Loss::framework_mismatch, statistics.framework_mismatch);
  losses.add(Loss::implicit_frees, statistics.implicit_frees);
  losses.add(Loss::steps_left_out, process.model().program().steps().steps_left_out());
  losses.add(Loss::marks_left_out, process.model().program().steps().marks().left_out());
  losses.add(Loss::ranges_left_out, process.model().program().steps().ranges_left_out());
  const auto& source = process.preview().source;
  const bool is_cut = source && (source->file.record.flags & trace::kFlagCut) != 0;
  losses.add(Loss::history_overflowed, is_cut ? 1 : 0);
  losses.add(Loss::detail_replaced_by_checkpoint, statistics.compacted_records);
  add_activity_losses(process.model().activity(), losses);
  return losses;
}

Inexact inexact_of(const Losses& losses) {
  const bool anything = losses[Loss::paused] + losses[Loss::corrupt_blocks] +
                            losses[Loss::missing_chunks] + losses[Loss::malformed_records] +
                            losses[Loss::truncated_tail] + losses[Loss::recording_disabled] +
                            losses[Loss::missing_ring] + losses[Loss::calls_taken_for_parts] !=
                        0;
  Inexact inexact;
  inexact.memory = anything || losses[Loss::dropped_allocations] + losses[Loss::dropped_frees] +
                                       losses[Loss::dropped_others] +
                                       losses[Loss::live_address_allocated] !=
                                   0;
  inexact.framework = anything || losses[Loss::dropped_blocks] != 0;
  inexact.copies = anything || losses[Loss::dropped_copies] != 0;
  return inexact;
}

std::vector<rows::PublicText> missing_events(const Losses& losses) {
  std::vector<rows::PublicText> names;
  for (std::size_t i = 0; i < kLosses.size(); ++i) {
    const auto loss = static_cast<Loss>(i);
    const bool is_missing = kLosses[i].severity == LossSeverity::data_loss ||
                            loss == Loss::paused || loss == Loss::missing_ring;
    if (is_missing && losses[loss] != 0) names.emplace_back(kLosses[i].name);
  }
  return names;
}

std::uint64_t dropped_of(const Losses& losses) {
  return losses[Loss::dropped_allocations] + losses[Loss::dropped_frees] +
         losses[Loss::dropped_copies] + losses[Loss::dropped_blocks] + losses[Loss::dropped_others];
}

std::vector<rows::Loss> loss_rows(const Losses& losses) {
  std::vector<rows::Loss> list;
  for (std::size_t i = 0; i < kLosses.size(); ++i) {
    const std::uint64_t count = losses[static_cast<Loss>(i)];
    if (count == 0) continue;
    list.push_back({std::string(kLosses[i].name), count, severity_of(kLosses[i].severity),
                    std::string(kLosses[i].remedy)});
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
