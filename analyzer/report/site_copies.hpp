// SPDX-License-Identifier: Apache-2.0
// Copies by the line that made them, with CUPTI's records about them, and the bandwidth of the
// connection between a device and the host.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "analyzer/model/accounts/devices.hpp"
#include "analyzer/model/copies/transfers.hpp"
#include "analyzer/report/report_context.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// The link's bandwidth in bytes per second for copies of this direction on the device; nullopt for
// copies that do not, or may not, cross PCI Express, and if generation or width is not known.
[[nodiscard]] std::optional<double> link_bytes_per_second(const DeviceState& device,
                                                          Direction direction);

// The row devices[].link; no value if the link's generation or width is not known.
[[nodiscard]] std::optional<rows::Link> link_row(const DeviceState& device);

// The key of copies that look alike to the reader: one line, one kind.
struct SiteCopiesKey {
  Identity identity;
  TransferKey kind;  // the kind of copy, its site left empty
  // True if the calling thread waits until the copy is complete; always false in sums that do not
  // tell such copies from others.
  bool waits = false;
  friend auto operator<=>(const SiteCopiesKey&, const SiteCopiesKey&) = default;
};

struct SiteCopies {
  TransferRow sum;
  std::string stack;  // the stack of the row that copied most
  std::uint64_t most_bytes = 0;
};
using CopiesBySite = std::map<SiteCopiesKey, SiteCopies>;

// Adds up copies that are one row to the reader, as the report's sections do.
void add(TransferRow& sum, const TransferRow& more);
void add_to_site(CopiesBySite& copies, const ReportContext& context, const ReportProcess& process,
                 const TransferRow& row, bool waits);

// The times of copies on the GPU by CUPTI's records, as far as they are known.
struct GpuView {
  rows::OptionalNumber time_ns;  // sum of the copies' times
  // Sum of the calls' spans, each from its first GPU record to its last.
  rows::OptionalNumber busy_ns;
  rows::OptionalNumber overlapped_ns;  // the part of `time_ns` in which kernels ran
  std::optional<double> bytes_per_s;
  std::optional<double> link_bytes_per_s;

  // The share of the link's bandwidth that copies used. No value also if the copies were faster
  // than PCI Express: they used another link.
  [[nodiscard]] std::optional<double> link_share() const;
  [[nodiscard]] std::optional<double> overlapped_share() const;
};
[[nodiscard]] GpuView gpu_view(const ReportProcess& process, const TransferRow& sum);

// Rounds the value to the nearest 1/`parts`, as rows of the report do.
[[nodiscard]] std::optional<double> rounded(const std::optional<double>& value, double parts);

}  // namespace gpumemtrace::analyzer
