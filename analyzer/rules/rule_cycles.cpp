// SPDX-License-Identifier: Apache-2.0
// Memory that nobody could reach and that stayed until Python's cycle collector ran.
#include <algorithm>
#include <string>

#include "analyzer/report/place_key.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct Place {
  Collected sums;  // of several ways there: collections and the largest of the one with most
  std::string stack;
};

std::map<PlaceKey, Place> places_of(const RuleInput& input, const ReportProcess& process) {
  std::map<PlaceKey, Place> places;
  const Accounts& accounts = process.model().accounts();
  process.model().collected().for_each([&](std::uint32_t index, const Collected& collected) {
    const Group& group = accounts.group(index);
    PlaceKey key{group.key.device, level_of(group.key.kind),
                 input.context.identity_of(process, {index, group.segments != 0})};
    const std::string stack = std::move(key.identity.stack);
    key.identity.stack.clear();
    Place& place = places[key];
    place.sums.count += collected.count;
    place.sums.bytes += collected.bytes;
    place.sums.collections = std::max(place.sums.collections, collected.collections);
    if (collected.largest_bytes > place.sums.largest_bytes) {
      place.sums.largest_bytes = collected.largest_bytes;
      place.sums.largest_time = collected.largest_time;
      place.stack = stack;
    }
  });
  return places;
}

Finding finding_of(const RuleInput& input, const ReportProcess& process, const PlaceKey& key,
                   const Place& place) {
  Finding finding =
      finding_at(Rule::kReferenceCycles, {{"process", process.id},
                                          {"device", input.context.device_id(process, key.device)},
                                          {"level", name_of(key.level)},
                                          {"owner", owner_json(key.identity)},
                                          {"site", site_json(key.identity)},
                                          {"stack", text_or_null(place.stack)}});
  const Collected& sums = place.sums;
  const std::string where = place_text(finding.site);
  const std::string largest = size_text(sums.largest_bytes);
  finding.bytes = sums.largest_bytes;
  finding.time_ns = process.time_ns(sums.largest_time);
  finding.evidence = {{"count", sums.count},
                      {"collected_bytes", sums.bytes},
                      {"collections", sums.collections},
                      {"largest_collection_bytes", sums.largest_bytes}};
  finding.title = largest + " from " + where + " waited for Python's cycle collector";
  finding.detail = "Python's cycle collector freed " +
                   count_text(sums.count, "allocation", "allocations") + " (" +
                   size_text(sums.bytes) + ") of " + where + ", in at least " +
                   std::to_string(sums.collections) + " runs, " + largest +
                   " at once. Nobody could reach that memory any more; it stayed until the "
                   "collector ran.";
  finding.fix =
      "Break the cycle of references that holds it, or make one of them a weakref; in PyTorch "
      "torch.utils.viz._cycles.warn_tensor_cycles() shows the cycles. gc.collect() at a fixed "
      "place is a workaround. " +
      largest + " would have been free earlier (exact).";
  return finding;
}

}  // namespace

void find_reference_cycles(const RuleInput& input, Findings& findings) {
  for (const ReportProcess& process : input.context.processes()) {
    for (const auto& [key, place] : places_of(input, process)) {
      if (place.sums.largest_bytes >= input.thresholds.bytes(Threshold::kCyclesBytes) &&
          place.sums.collections >= input.thresholds.count(Threshold::kCyclesCollections)) {
        findings.push_back(finding_of(input, process, key, place));
      }
    }
  }
}

}  // namespace gpumemtrace::analyzer
