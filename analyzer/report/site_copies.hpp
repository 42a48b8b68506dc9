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

// Bytes a second for copies of this direction on the device; nullopt for those that do not cross
// PCI Express, or perhaps do not, and if generation or width is not known.
[[nodiscard]] std::optional<double> link_bytes_per_second(const DeviceState& device,
                                                          Direction direction);

// devices[].link; no value if generation or width is not known.
[[nodiscard]] std::optional<rows::Link> link_row(const DeviceState& device);

// Copies that look alike to the reader: one line, one kind.
struct SiteCopiesKey {
  Identity identity;
  TransferKey kind;    // without its site
  bool waits = false;  // the calling thread, until the copy is complete; if that is asked for
  friend auto operator<=>(const SiteCopiesKey&, const SiteCopiesKey&) = default;
};

struct SiteCopies {
  TransferRow sum;
  std::string stack;  // of the row that copied most
  std::uint64_t most_bytes = 0;
};
using CopiesBySite = std::map<SiteCopiesKey, SiteCopies>;

// Adds up copies that are one row to the reader, as the sections do.
void add(TransferRow& sum, const TransferRow& more);
void add_to_site(CopiesBySite& copies, const ReportContext& context, const ReportProcess& process,
                 const TransferRow& row, bool waits);

// CUPTI's records about copies, as far as they are known.
struct GpuView {
  rows::OptionalNumber time_ns;        // sum of the copies
  rows::OptionalNumber busy_ns;        // sum of the calls, each from its first record to its last
  rows::OptionalNumber overlapped_ns;  // by kernels
  std::optional<double> bytes_per_s;
  std::optional<double> link_bytes_per_s;

  // No value also if the copies were faster than PCI Express: it was another link.
  [[nodiscard]] std::optional<double> link_share() const;
  [[nodiscard]] std::optional<double> overlapped_share() const;
};
[[nodiscard]] GpuView gpu_view(const ReportProcess& process, const TransferRow& sum);

// Rounds to so many parts of one, as in rows.
[[nodiscard]] std::optional<double> rounded(const std::optional<double>& value, double parts);

}  // namespace gpumemtrace::analyzer
