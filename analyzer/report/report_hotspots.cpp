// Places whose copies cost more than they must: transfers.hotspots[].
#include <string>

#include "analyzer/report/sections.hpp"
#include "analyzer/rules/rule_table.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Copies that look alike to the reader: one place, one kind.
struct PlaceKey {
  Identity identity;
  TransferKey kind;    // without its site
  bool waits = false;  // the calling thread, until the copy is complete
  friend auto operator<=>(const PlaceKey&, const PlaceKey&) = default;
};

struct PlaceSums {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_ticks = 0;
  std::uint64_t returned_count = 0;
  std::uint64_t returned_bytes = 0;
  std::string stack;  // of the way there that copied most
  std::uint64_t most_bytes = 0;
  [[nodiscard]] std::uint64_t mean_bytes() const { return count == 0 ? 0 : bytes / count; }
};

bool between_host_and_device(const TransferKey& key) {
  return key.direction == Direction::kHostToDevice || key.direction == Direction::kDeviceToHost;
}

bool has_pageable_end(const TransferKey& key) {
  return key.source == MemoryClass::kPageable || key.destination == MemoryClass::kPageable;
}

// The driver returns from a copy to pageable memory only when it is complete, whatever it is
// called.
bool copy_waits(const TransferKey& key) {
  return !key.asynchronous ||
         (key.direction == Direction::kDeviceToHost && key.destination == MemoryClass::kPageable);
}

// At most one rule a place: the one whose remedy helps most.
Rule rule_for(const PlaceKey& place, const PlaceSums& sums, const Thresholds& thresholds) {
  const TransferKey& key = place.kind;
  if (!between_host_and_device(key)) return Rule::kCount;
  if (sums.returned_count >= thresholds.count(Threshold::kPingPongCount) &&
      sums.returned_bytes >= thresholds.bytes(Threshold::kPingPongBytes)) {
    return Rule::kPingPong;
  }
  const bool small = sums.mean_bytes() <= thresholds.bytes(Threshold::kSmallMeanBytes);
  const bool pageable = key.asynchronous && has_pageable_end(key) && !small;
  if (pageable && sums.bytes >= thresholds.bytes(Threshold::kPageableBytes)) {
    return Rule::kPageableCopies;
  }
  if (place.waits) {
    const bool many = sums.count >= thresholds.count(Threshold::kSynchronousCount);
    return many && !pageable ? Rule::kSynchronousCopies : Rule::kCount;
  }
  const bool many = sums.count >= thresholds.count(Threshold::kSmallCount);
  return small && many ? Rule::kSmallCopies : Rule::kCount;
}

std::string advice_for(Rule rule, const TransferKey& key, bool python) {
  const bool up = key.direction == Direction::kHostToDevice;
  switch (rule) {
    case Rule::kPageableCopies:
      if (python) {
        return up ? "Copy from pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()) "
                    "with non_blocking=True; the calls then return at once."
                  : "Copy into a pinned buffer (torch.empty(..., pin_memory=True)) with "
                    "non_blocking=True; the calls then return at once.";
      }
      return "Allocate the host buffer with cudaMallocHost or cuMemHostAlloc; the calls then "
             "return at once.";
    case Rule::kSynchronousCopies:
      if (up) {
        return python ? "Copy from pinned memory with non_blocking=True, or copy once before the "
                        "loop."
                      : "Use an asynchronous copy from pinned memory, or copy once before the "
                        "loop.";
      }
      return python ? "Keep the value on the GPU (no .item(), .cpu() or print in the loop) and "
                      "read it every so many rounds."
                    : "Keep the result on the GPU and read it every so many rounds, or copy it "
                      "asynchronously to pinned memory.";
    case Rule::kPingPong:
      return "Keep the data on the GPU between the two copies, or copy only what the host changed. "
             "Both ways would be saved (arithmetic). Where memory is offloaded on purpose, "
             "suppress "
             "this.";
    default:
      return "Gather the pieces in one buffer and copy it once; a call costs more than these "
             "bytes.";
  }
}

Json hotspot_json(const ReportContext& context, const ReportProcess& process, Rule rule,
                  const PlaceKey& place, const PlaceSums& sums) {
  const Identity& identity = place.identity;
  Json row = {{"rule", describe(rule).name},
              {"process", process.id},
              {"device", context.device_id(process, place.kind.device)},
              {"direction", name_of(place.kind.direction)},
              {"count", sums.count},
              {"bytes", sums.bytes},
              {"time_lost_ns", process.process->clock().duration_ns(sums.host_ticks)},
              {"owner", owner_json(identity)},
              {"site", site_json(identity)},
              {"stack", text_or_null(sums.stack)},
              {"advice", advice_for(rule, place.kind, identity.is_python)},
              {"api", identity.api},
              {"source_memory", name_of(place.kind.source)},
              {"destination_memory", name_of(place.kind.destination)},
              {"mean_bytes", sums.mean_bytes()},
              {"returned_count", sums.returned_count},
              {"returned_bytes", sums.returned_bytes}};
  mark_inexact(row, process.inexact.copies);
  return row;
}

std::map<PlaceKey, PlaceSums> places_of(const ReportContext& context,
                                        const ReportProcess& process) {
  std::map<PlaceKey, PlaceSums> places;
  for (const TransferRow& row : process.model().transfers().rows()) {
    if (row.key.is_set || row.key.in_graph) continue;
    PlaceKey place{context.identity_of_site(process, row.key.site), row.key};
    place.waits =
        copy_waits(row.key) || (row.key.direction == Direction::kDeviceToHost &&
                                context.names_of(process).waits_for_copy(row.key.site.stack));
    const std::string stack = std::move(place.identity.stack);
    place.identity.stack.clear();
    place.identity.api = process.model().dictionary().function_of(row.key.site);
    place.kind.site = CallSite{};
    PlaceSums& sums = places[place];
    if (sums.count == 0 || row.bytes > sums.most_bytes) {
      sums.most_bytes = row.bytes;
      sums.stack = stack;
    }
    sums.count += row.count;
    sums.bytes += row.bytes;
    sums.host_ticks += row.host_ticks;
    sums.returned_count += row.returned_count;
    sums.returned_bytes += row.returned_bytes;
  }
  return places;
}

}  // namespace

Json report_hotspots(const ReportContext& context, const Thresholds& thresholds) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [place, sums] : places_of(context, process)) {
      const Rule rule = rule_for(place, sums, thresholds);
      if (rule == Rule::kCount) continue;
      rows.push_back(hotspot_json(context, process, rule, place, sums));
    }
  }
  return sorted_rows(std::move(rows), "bytes");
}

}  // namespace gpumemtrace::analyzer
