// SPDX-License-Identifier: Apache-2.0
// what_if[]: each process's allocator replayed under other settings.
#include <algorithm>
#include <array>
#include <set>

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

// The places that blocks of one process count under, by the stacks that were recorded with them:
// those of PyTorch's own threads count under the stack of the thread that waited.
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
  // If blocks of one stack count under several places, the framework's identity for the stack.
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

// The largest, and the remainder as `other`.
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

}  // namespace gpumemtrace::analyzer
