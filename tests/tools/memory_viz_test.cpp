// SPDX-License-Identifier: Apache-2.0
// Writes what a damaged or hostile trace claims, such as memory beyond the last address, in the
// format of PyTorch's memory page.
#include <string>

#include "tests/catch.hpp"
#include "tools/export/exports.hpp"

namespace gpumemtrace::memory_viz_test {

using namespace gpumemtrace;
namespace rows = analyzer::rows;

namespace {

rows::Allocation memory(analyzer::Level level, std::uint64_t address, std::uint64_t bytes,
                        std::uint64_t start_ns) {
  rows::Allocation row;
  row.device = "d0";
  row.level = level;
  row.address = address;
  row.bytes = bytes;
  row.start_ns = start_ns;
  row.owner = "pytorch";
  return row;
}

}  // namespace

TEST_CASE("memory that ends beyond the last address does not upset the memory page", "[unit]") {
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  rows::Report report;
  report.processes.emplace_back().id = "p1";
  report.devices.emplace_back().id = "d0";
  report.allocations.emplace();
  rows::AllocationHistory& history = report.allocations->emplace_back();
  history.process = "p1";
  std::uint64_t now = 0;
  for (const std::uint64_t address : {std::uint64_t{0x1000}, kLast - 4096, kLast}) {
    for (const std::uint64_t bytes : {std::uint64_t{1} << 20, kLast}) {
      history.allocations.push_back(memory(analyzer::Level::kDriver, address, bytes, ++now));
      history.allocations.push_back(memory(analyzer::Level::kFramework, address, bytes, ++now));
    }
  }
  for (const analyzer::Level level : {analyzer::Level::kDriver, analyzer::Level::kFramework}) {
    CHECK_FALSE(tools::memory_viz_snapshot(report, "p1", level, 0).empty());
  }
}

TEST_CASE("a device with a large number makes no large memory page", "[unit]") {
  rows::Report report;
  report.processes.emplace_back().id = "p1";
  rows::Device& device = report.devices.emplace_back();
  device.id = "d0";
  device.seen_as.push_back({"p1", 2'000'000'000});
  report.allocations.emplace().emplace_back().process = "p1";
  CHECK(tools::memory_viz_snapshot(report, "p1", analyzer::Level::kDriver, 0).size() < 100'000);
}

}  // namespace gpumemtrace::memory_viz_test
