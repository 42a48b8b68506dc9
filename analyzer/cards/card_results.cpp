// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cards/card_results.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "analyzer/cards/card_replay.hpp"

namespace gpumemtrace::analyzer {
namespace {

using rows::CardHistory;
using rows::CardPart;
using rows::CardPartKind;

// Fills in the parts of a peak's row; the parts sum to the row's bytes.
class PartList {
 public:
  explicit PartList(rows::CardPeak& row) : row_(row), rest_(row.bytes) {}

  // Adds a part, with at most as many bytes as the parts so far leave of the row's bytes.
  void add(const rows::OptionalText& process, CardPartKind what, std::uint64_t bytes,
           const rows::OptionalText& owner = std::nullopt) {
    const std::uint64_t part = std::min(bytes, rest_);
    rest_ -= part;
    if (part != 0) row_.parts.push_back({process, what, owner, part});
  }
  void add_rest(CardPartKind what) { add(std::nullopt, what, rest_); }

 private:
  rows::CardPeak& row_;
  std::uint64_t rest_;
};

// The bytes that each owner in history.owners[] held at the point that `at` describes.
std::vector<std::uint64_t> bytes_of_owners(const CardHistory& history, const OwnersAt& at) {
  std::vector<std::uint64_t> bytes(history.owners.size());
  if (at.before_cut != nullptr) {
    for (const rows::CardOwnersBytes& row : at.before_cut->owners) bytes[row.owner] += row.bytes;
    return bytes;
  }
  for (const rows::CardOwnersChange& row : history.owners_changes) {
    if (row.change >= at.changes) break;
    bytes[row.owner] += static_cast<std::uint64_t>(row.bytes);
  }
  return bytes;
}

// The parts of what `process` held at the point; uses[] of its history tells the bytes in use.
Parts parts_at(const CardReplay& replay, const CardPoint& point, std::size_t process) {
  const HeldOnCard& held = point.held[process];
  Parts parts = held.parts;
  if (held.holders.changes == 0) return parts;
  const std::vector<rows::CardUse>& uses = replay.histories()[process]->uses;
  // Events of the same time count in the order of processes: a use at exactly the point's time
  // counts only if `process` does not come after the point's process.
  const bool comes_first = process <= point.process;
  const auto after = std::ranges::partition_point(uses, [&](const rows::CardUse& use) {
    return time_of_point(std::uint64_t{use.time_ns}) < point.time + (comes_first ? 1 : 0);
  });
  if (after == uses.begin()) return parts;
  parts.framework_allocated = (after - 1)->framework_allocated;
  parts.pool_used = (after - 1)->pool_used;
  return parts;
}

// Adds the memory that the process's calls held at the point: segments of the framework, pools,
// other allocations by owner, and rounding.
void add_calls(const CardReplay& replay, const CardPoint& point, std::size_t process,
               PartList& list) {
  const CardHistory& history = *replay.histories()[process];
  const HeldOnCard& held = point.held[process];
  std::uint64_t segment_bytes = 0;
  std::uint64_t known_bytes = 0;
  std::map<std::string, std::uint64_t> by_owner;
  const std::vector<std::uint64_t> bytes = bytes_of_owners(history, held.holders);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const rows::CardOwner& owner = history.owners[i];
    known_bytes += bytes[i];
    (owner.is_framework ? segment_bytes : by_owner[owner.owner.value_or("")]) += bytes[i];
  }
  const Parts parts = parts_at(replay, point, process);
  const std::uint64_t framework_allocated = std::min(segment_bytes, parts.framework_allocated);
  const std::uint64_t pool_used = std::min(parts.pool_used, parts.pool_reserved);
  list.add(history.process, CardPartKind::kFrameworkAllocated, framework_allocated);
  list.add(history.process, CardPartKind::kFrameworkCached, segment_bytes - framework_allocated);
  list.add(history.process, CardPartKind::kPoolUsed, pool_used);
  list.add(history.process, CardPartKind::kPoolCached, parts.pool_reserved - pool_used);
  // memory allocated from the driver whose owner is not known
  by_owner[""] += parts.driver - std::min(parts.driver, known_bytes);
  for (const auto& [owner, owned_bytes] : by_owner) {
    list.add(history.process, CardPartKind::kAllocated, owned_bytes, rows::text_or_none(owner));
  }
  list.add(history.process, CardPartKind::kRounding, held.rounding_bytes);
}

struct Card {
  const CardReplay& replay;
  std::uint64_t total_bytes = 0;
  bool is_inexact = false;
  // the bytes of managed memory are not known, because NVML counts them for no process
  bool is_managed_unknown = false;

  [[nodiscard]] const CardCurves& curves() const { return replay.curves(); }
  [[nodiscard]] const rows::ProcessId& process_id(std::size_t process) const {
    return replay.histories()[process]->process;
  }
};

// The process whose managed memory is on the card, if there is only one such process.
rows::OptionalText process_with_managed(const Card& card) {
  rows::OptionalText id;
  for (const CardMember& member : card.curves().members()) {
    if (!member.has_managed) continue;
    if (id) return std::nullopt;
    id = member.history->process;
  }
  return id;
}

// Widens the bounds of a peak of several processes by the changes that histories leave out. They
// count twice: at the peak, and at the sample from which the driver's part is known.
void widen_by_left_out_changes(const Card& card, rows::CardPeak& row) {
  if (card.replay.histories().size() == 1) return;
  const std::uint64_t unknown_bytes =
      std::min(2 * card.replay.unknown_bytes(), ledger::kMostCardBytes);
  if (unknown_bytes == 0) return;
  row.is_exact = false;
  row.low_bytes -= std::min(row.low_bytes, unknown_bytes);
  std::uint64_t high_bytes = row.high_bytes + unknown_bytes;
  if (card.total_bytes != 0) high_bytes = std::min(high_bytes, card.total_bytes);
  row.high_bytes = std::max(row.high_bytes, high_bytes);
}

// True if another process's history does not tell how much of its memory was in use at the point.
bool lacks_uses(const Card& card, const CardPoint& point) {
  const auto histories = card.replay.histories();
  for (std::size_t i = 0; i < histories.size(); ++i) {
    if (i != point.process && histories[i]->uses_are_left_out) return true;
  }
  return false;
}

// Adds the parts of a peak's row. `process_bytes_known`: NVML told how much each process uses.
void add_parts(const Card& card, rows::PeakOf of, const CardPoint& point, bool process_bytes_known,
               rows::CardPeak& row) {
  const std::size_t processes = card.replay.histories().size();
  PartList list(row);
  for (std::size_t i = 0; i < processes; ++i) add_calls(card.replay, point, i, list);
  if (!process_bytes_known) return list.add_rest(CardPartKind::kNotSeparable);
  for (std::size_t i = 0; i < processes; ++i) {
    list.add(card.process_id(i), CardPartKind::kDriver,
             ledger::positive(point.held[i].driver_bytes));
  }
  list.add(std::nullopt, CardPartKind::kDriver, point.untraced_bytes);
  list.add(process_with_managed(card), CardPartKind::kManaged, point.managed_bytes);
  if (of == rows::PeakOf::kJob) return list.add_rest(CardPartKind::kNotSeparable);
  if (!point.is_partial) list.add(std::nullopt, CardPartKind::kOtherProcesses, point.other_bytes);
  list.add_rest(card.is_managed_unknown || point.is_partial ? CardPartKind::kNotSeparable
                                                            : CardPartKind::kNoProcess);
}

rows::CardPeak peak_row(const Card& card, rows::PeakOf of, const CardCurves::Curve& curve,
                        bool process_bytes_known) {
  const ledger::CurveBounds bounds = curve.bounds();
  const CardPoint& point = curve.highest();
  rows::CardPeak row;
  // If the job's curve is not known, `curve` is the card's. The bytes that processes outside of the
  // job are known to hold are then subtracted.
  const bool is_cards = of == rows::PeakOf::kJob && &curve == &card.curves().of_card();
  const std::uint64_t others = is_cards && process_bytes_known ? point.other_bytes : 0;
  row.device = card.replay.histories().front()->device;
  row.of = of;
  row.bytes = bounds.bytes - std::min(bounds.bytes, others);
  row.low_bytes = bounds.low_bytes - std::min(bounds.low_bytes, others);
  row.high_bytes = bounds.high_bytes - std::min(bounds.high_bytes, others);
  // Without a sample of the driver's numbers, the driver's own bytes are not known.
  if (!curve.was_sampled()) row.high_bytes = std::max(row.high_bytes, card.total_bytes);
  row.is_exact = bounds.is_exact && !card.is_inexact && !lacks_uses(card, point);
  if (point.time != 0) row.time_ns = point.time - time_of_point(0);
  add_parts(card, of, point, process_bytes_known, row);
  return row;
}

// Sets the bounds of the job's bytes if its managed memory is not known. NVML counts managed memory
// for no process, so the job holds at least the bytes of `curve`, which NVML counted.
void widen_for_unknown_managed(const CardCurves::Curve& curve, rows::CardPeak& job) {
  job.low_bytes = std::min(job.high_bytes, curve.bounds().low_bytes);
  job.is_exact = job.is_exact && job.low_bytes == job.high_bytes;
}

// Limits the job's peak to `most_bytes`, the memory in use on the card. The peak can lie above if a
// call was running at NVML's sample and NVML had counted its memory already. That memory was
// counted a second time as the driver's part, which is reduced.
void limit(rows::CardPeak& job, std::uint64_t most_bytes) {
  job.low_bytes = std::min(job.low_bytes, most_bytes);
  job.high_bytes = std::min(job.high_bytes, most_bytes);
  std::uint64_t too_much = job.bytes - std::min(job.bytes, job.high_bytes);
  job.bytes -= too_much;
  for (CardPart& part : job.parts) {
    if (part.what != CardPartKind::kDriver) continue;
    const std::uint64_t taken = std::min(part.bytes, too_much);
    part.bytes -= taken;
    too_much -= taken;
  }
  job.bytes += too_much;
  job.high_bytes = std::max(job.high_bytes, job.bytes);
  std::erase_if(job.parts, [](const CardPart& part) { return part.bytes == 0; });
}

std::vector<rows::CardPeak> peak_rows(const CardReplay& replay) {
  const CardCurves& curves = replay.curves();
  const CardHistory& first = *replay.histories().front();
  if (curves.of_card().highest().time == 0) return {};
  // A trace made from a file of another tool does not tell what else was on the card.
  if (first.has_source) return {};
  Card card{replay, first.total_bytes, !replay.is_whole()};
  for (const CardHistory* const history : replay.histories()) {
    card.is_inexact = card.is_inexact || history->is_inexact;
    card.is_managed_unknown = card.is_managed_unknown || history->allocates_managed;
  }
  card.is_managed_unknown = card.is_managed_unknown && !curves.managed().is_known;
  const bool process_bytes_known = curves.of_job().was_sampled();
  rows::CardPeak whole = peak_row(card, rows::PeakOf::kCard, curves.of_card(), process_bytes_known);
  rows::CardPeak job =
      process_bytes_known && !card.is_managed_unknown
          ? peak_row(card, rows::PeakOf::kJob, curves.of_job(), true)
          : peak_row(card, rows::PeakOf::kJob, curves.of_card(), process_bytes_known);
  if (process_bytes_known && card.is_managed_unknown) {
    widen_for_unknown_managed(curves.of_job(), job);
  }
  widen_by_left_out_changes(card, whole);
  widen_by_left_out_changes(card, job);
  limit(job, whole.high_bytes);
  return {whole, job};
}

std::optional<rows::PhysicalPeak> physical_peak(const CardReplay& replay) {
  const CalledPeak& peak = replay.called_peak();
  if (peak.bytes == 0) return std::nullopt;
  const bool has_others = replay.histories().size() > 1;
  bool is_inexact = has_others && replay.unknown_bytes() != 0;
  for (const CardHistory* const history : replay.histories()) {
    // Before a checkpoint only the process's own peak is known, not its sum with other processes.
    const bool is_partial = has_others && !history->restored_peaks.empty();
    is_inexact = is_inexact || history->is_inexact || history->has_source || is_partial;
  }
  return rows::PhysicalPeak{peak.bytes, peak.time_ns, !is_inexact};
}

}  // namespace

CardResults card_results(std::span<const rows::CardHistory* const> histories) {
  const CardReplay replay(histories);
  return {peak_rows(replay), physical_peak(replay)};
}

}  // namespace gpumemtrace::analyzer
