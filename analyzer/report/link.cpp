// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/link.hpp"

#include <array>

namespace gpumemtrace::analyzer {
namespace {

struct Lane {
  double transfers_per_second = 0;
  double payload = 0;  // part of the bits that the line code leaves
};

// Index 0 is the first generation.
constexpr auto kLanes = std::to_array<Lane>({{2.5e9, 8.0 / 10},
                                             {5e9, 8.0 / 10},
                                             {8e9, 128.0 / 130},
                                             {16e9, 128.0 / 130},
                                             {32e9, 128.0 / 130},
                                             {64e9, 242.0 / 256}});
constexpr std::uint32_t kMostLanes = 32;

// By the rates of the PCI Express base specifications: 2.5, 5, 8, 16, 32 and 64 GT/s a lane, less
// the line code. The packets' own headers take a further tenth or so.
std::optional<double> pcie_bytes_per_second(std::uint32_t generation, std::uint32_t width) {
  if (generation == 0 || generation > kLanes.size() || width == 0 || width > kMostLanes) {
    return std::nullopt;
  }
  const Lane& lane = kLanes[generation - 1];
  return lane.transfers_per_second * lane.payload / 8 * width;
}

}  // namespace

std::optional<double> link_bytes_per_second(const DeviceState& device, Direction direction) {
  if (direction != Direction::kHostToDevice && direction != Direction::kDeviceToHost) {
    return std::nullopt;
  }
  return pcie_bytes_per_second(device.pcie_generation, device.pcie_width);
}

std::optional<rows::Link> link_row(const DeviceState& device) {
  const auto bytes_per_second = pcie_bytes_per_second(device.pcie_generation, device.pcie_width);
  if (!bytes_per_second) return std::nullopt;
  return rows::Link{"pcie", device.pcie_generation, device.pcie_width, *bytes_per_second,
                    "theoretical"};
}

}  // namespace gpumemtrace::analyzer
