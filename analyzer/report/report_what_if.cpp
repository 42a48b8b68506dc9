// SPDX-License-Identifier: Apache-2.0
// what_if[]: each process's allocator replayed under other settings.
#include "analyzer/replay/what_if.hpp"
#include "analyzer/report/report_context.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::WhatIfBasis basis_row(replay::Basis basis) {
  switch (basis) {
    case replay::Basis::kReplayed:
      return rows::WhatIfBasis::kReplayed;
    case replay::Basis::kSampled:
      return rows::WhatIfBasis::kSampled;
    case replay::Basis::kEstimated:
      return rows::WhatIfBasis::kEstimated;
    case replay::Basis::kBracket:
      return rows::WhatIfBasis::kBracket;
  }
  return rows::WhatIfBasis::kEstimated;
}

rows::WhatIfRow setting_row(const replay::Row& row) {
  rows::WhatIfRow out;
  out.policy = row.policy;
  out.options = row.options;
  out.reserved_peak_bytes = row.reserved_peak_bytes;
  out.low_bytes = row.low_bytes;
  out.high_bytes = row.high_bytes;
  out.allocated_peak_bytes = row.allocated_peak_bytes;
  out.retries = row.retries;
  out.segments = row.segments;
  out.segment_calls = row.segment_calls;
  out.raised = row.raised;
  for (const replay::Fit& fit : row.fits) {
    out.fits.push_back({fit.capacity_bytes, fit.fits, fit.margin_bytes});
  }
  out.basis = basis_row(row.basis);
  out.warning = rows::text_or_none(row.warning);
  out.reason = rows::text_or_none(row.reason);
  return out;
}

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
  return out;
}

std::vector<rows::WhatIfUnusable> unusable_rows(const replay::Unusable& unusable) {
  return {
      {"rounding", unusable.rounding},           {"too_small_pieces", unusable.pieces},
      {"oversize_blocks", unusable.oversize},    {"other_pool", unusable.other_pool},
      {"other_streams", unusable.other_streams}, {"rest_of_new_segment", unusable.rest_of_segment}};
}

}  // namespace

std::vector<rows::WhatIf> report_what_if(const ReportContext& context,
                                         const replay::Question& question) {
  std::vector<rows::WhatIf> out;
  for (const ReportProcess& process : context.processes()) {
    const replay::Answer answer = replay::what_if(process.process->file(), question);
    for (const replay::DeviceAnswer& device : answer.devices) {
      rows::WhatIf row;
      row.process = process.id;
      row.device = context.device_id(process, device.device);
      row.recorded = recorded_row(device);
      for (const replay::Row& setting : device.rows) row.rows.push_back(setting_row(setting));
      row.ideal.live_peak_bytes = device.live_peak_bytes;
      row.ideal.packed_bytes = device.packed_bytes;
      if (device.packed_bytes) row.ideal.packed_window = device.packed_events;
      if (device.knows_unusable) row.unusable_at_peak = unusable_rows(device.unusable);
      out.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace gpumemtrace::analyzer
