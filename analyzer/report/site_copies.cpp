// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/site_copies.hpp"

#include <array>
#include <cmath>

#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct Lane {
  double transfers_per_second = 0;
  double payload = 0;  // the share of transferred bits that carries data after the line code
};

// A lane of each PCI Express generation; index 0 is the first generation.
constexpr auto kLanes = std::to_array<Lane>({{2.5e9, 8.0 / 10},
                                             {5e9, 8.0 / 10},
                                             {8e9, 128.0 / 130},
                                             {16e9, 128.0 / 130},
                                             {32e9, 128.0 / 130},
                                             {64e9, 242.0 / 256}});
constexpr std::uint32_t kMostLanes = 32;

// The bandwidth by the rates of the PCI Express base specifications: 2.5, 5, 8, 16, 32 and 64 GT/s
// a lane, less the line code. The packets' own headers take a further tenth or so.
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

void add(TransferRow& sum, const TransferRow& more) {
  sum.count += more.count;
  sum.bytes += more.bytes;
  sum.host_ticks += more.host_ticks;
  sum.timed_calls += more.timed_calls;
  sum.sizes.add(more.sizes);
  sum.call_ticks.add(more.call_ticks);
  sum.times.add(more.times);
  sum.has_restored_sums = sum.has_restored_sums || more.has_restored_sums;
  // `to_host_row` is the row of the copies to the host whose data came back to the GPU. Of several
  // such rows, the first stands for all.
  if (sum.returned.count == 0) sum.to_host_row = more.to_host_row;
  sum.returned.add(more.returned);
  sum.hashed_count += more.hashed_count;
  sum.repeats.add(more.repeats);
  sum.repeated_bytes += more.repeated_bytes;
  sum.gpu.add(more.gpu);
}

void add_to_site(CopiesBySite& copies, const ReportContext& context, const ReportProcess& process,
                 const TransferRow& row, bool waits) {
  SiteCopiesKey key{context.identity_of_site(process, row.key.site), row.key, waits};
  const std::string stack = take_stack(key.identity);
  key.identity.api = process.model().program().dictionary().function_of(row.key.site);
  key.kind.site = CallSite{};
  SiteCopies& site = copies[key];
  if (site.sum.count == 0 || row.bytes > site.most_bytes) {
    site.most_bytes = row.bytes;
    site.stack = stack;
  }
  site.sum.key = key.kind;
  add(site.sum, row);
}

std::optional<double> GpuView::link_share() const {
  if (!bytes_per_s || !link_bytes_per_s || *bytes_per_s > *link_bytes_per_s) return std::nullopt;
  return *bytes_per_s / *link_bytes_per_s;
}

std::optional<double> GpuView::overlapped_share() const {
  if (!overlapped_ns || time_ns.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(*overlapped_ns) / static_cast<double>(*time_ns);
}

GpuView gpu_view(const ReportProcess& process, const TransferRow& sum) {
  GpuView view;
  if (sum.gpu.records == 0) return view;
  const ProcessModel& model = process.model();
  view.time_ns = process.duration_ns(sum.gpu.ticks);
  view.busy_ns = process.duration_ns(sum.gpu.busy_ticks);
  if (model.activity().has_kernels()) {
    view.overlapped_ns = process.duration_ns(sum.gpu.overlapped_ticks);
  }
  if (*view.busy_ns != 0) {
    view.bytes_per_s =
        static_cast<double>(sum.gpu.bytes) * 1e9 / static_cast<double>(*view.busy_ns);
  }
  const auto& devices = model.memory().devices.devices();
  const auto device = devices.find(sum.key.device);
  if (device != devices.end()) {
    view.link_bytes_per_s = link_bytes_per_second(device->second, sum.key.direction);
  }
  return view;
}

std::optional<double> rounded(const std::optional<double>& value, double parts) {
  if (!value) return std::nullopt;
  return std::round(*value * parts) / parts;
}

}  // namespace gpumemtrace::analyzer
