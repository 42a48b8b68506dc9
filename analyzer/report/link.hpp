// SPDX-License-Identifier: Apache-2.0
// The bandwidth of the connection between a device and the host.
#pragma once

#include <optional>

#include "analyzer/model/accounts/devices.hpp"
#include "analyzer/model/copies/transfers.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// Bytes a second for copies of this direction on the device; nullopt for those that do not cross
// PCI Express, or perhaps do not, and if generation or width is not known.
[[nodiscard]] std::optional<double> link_bytes_per_second(const DeviceState& device,
                                                          Direction direction);

// devices[].link; no value if generation or width is not known.
[[nodiscard]] std::optional<rows::Link> link_row(const DeviceState& device);

}  // namespace gpumemtrace::analyzer
