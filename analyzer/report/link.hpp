// SPDX-License-Identifier: Apache-2.0
// What the connection between a device and the host can carry.
#pragma once

#include <optional>

#include "analyzer/model/accounts/devices.hpp"
#include "analyzer/model/copies/transfers.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// Bytes a second in one direction, by the rates of the PCI Express base specifications: 2.5, 5, 8,
// 16, 32 and 64 GT/s a lane, less the line code. The packets' own headers take a further tenth or
// so. nullopt where generation or width is not known.
[[nodiscard]] std::optional<double> pcie_bytes_per_second(std::uint32_t generation,
                                                          std::uint32_t width);

// The same for copies of this direction on the device; nullopt for those that do not cross PCI
// Express, or perhaps do not.
[[nodiscard]] std::optional<double> link_bytes_per_second(const DeviceState& device,
                                                          Direction direction);

// devices[].link; no value where generation or width is not known.
[[nodiscard]] std::optional<rows::Link> link_row(const DeviceState& device);

}  // namespace gpumemtrace::analyzer
