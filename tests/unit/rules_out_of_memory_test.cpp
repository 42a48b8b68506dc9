// SPDX-License-Identifier: Apache-2.0
// Findings if PyTorch gives up while the device has room.
#include <string>

#include "analyzer/rules/rules.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::rules_out_of_memory_test {

using namespace gpumemtrace::analyzer;

namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kGib = 1 << 30;

// PyTorch was refused 256 MiB with 2 MiB in its cache, after `attempts` calls of the driver.
rows::Oom refused_with(std::uint64_t attempts, std::uint64_t device_free_bytes) {
  rows::Oom row;
  row.process = "p1";
  row.device = "d0";
  row.level = Level::kFramework;
  row.outcome = OomOutcome::kRaised;
  row.verdict = rows::OomVerdict::kExhausted;
  row.count = 1;
  row.attempts = attempts;
  row.requested_bytes = 256 * kMib;
  row.free_bytes = row.largest_free_bytes = 2 * kMib;
  row.device_free_bytes = device_free_bytes;
  rows::Holder& holder = row.holders.emplace_back();
  holder.bytes = 4 * kGib;
  holder.count = 3;
  return row;
}

rows::Finding finding_of(const rows::Oom& row, const rows::Observations& seen = {}) {
  rows::Report report;
  report.oom.push_back(row);
  Findings found;
  find_out_of_memory({report, seen, Thresholds()}, found);
  return found.at(0);
}

rows::Finding failure_with(std::uint64_t attempts, std::uint64_t device_free_bytes) {
  return finding_of(refused_with(attempts, device_free_bytes));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a limit of PyTorch's own is told with what the device had free", "[unit]") {
  const rows::Finding found = failure_with(0, 70 * kGib);
  CHECK(has(found.detail, "70.00 GiB free on the device, but not within PyTorch's own limit"));
  CHECK(found.fix.find("Raise PyTorch's own limit "
                       "(torch.cuda.set_per_process_memory_fraction") == 0);
  CHECK(has(found.fix, "70.0 GiB of the device were free. Else: Free or avoid up to 256.0 MiB"));
  CHECK_FALSE(has(found.fix, "at most"));
}

TEST_CASE("a device that refused, or had no room, is what was full", "[unit]") {
  for (const rows::Finding& found : {failure_with(2, 70 * kGib), failure_with(0, 270 * kMib)}) {
    CHECK_FALSE(has(found.detail, "own limit"));
    CHECK_FALSE(has(found.fix, "own limit"));
    CHECK(has(found.fix, "at least"));
  }
}

TEST_CASE("where no size is known that fits, less is asked for without one", "[unit]") {
  rows::Oom row = refused_with(0, 70 * kGib);
  row.verdict = rows::OomVerdict::kFragmented;
  rows::Observations seen;
  rows::ReplayedAllocator& allocator = seen.replayed.emplace_back();
  allocator.process = row.process;
  allocator.device = row.device;
  allocator.is_expandable = true;
  CHECK(has(finding_of(row, seen).fix, "Else: Ask for less."));
}

}  // namespace gpumemtrace::rules_out_of_memory_test
