// SPDX-License-Identifier: Apache-2.0
// Small parts of the analyzer, each tested by itself: the flat map, the clock, locations, owners.
#include <map>
#include <random>

#include "analyzer/base/clock.hpp"
#include "analyzer/base/flat_map.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/model/memory/geometry.hpp"
#include "analyzer/owners/owners.hpp"
#include "tests/catch.hpp"
#include "trace/ledger/copy_locations.hpp"

namespace gpumemtrace::analyzer_parts_test {

using namespace gpumemtrace::analyzer;
using gpumemtrace::ledger::CopyLocations;
using gpumemtrace::ledger::Location;
using gpumemtrace::ledger::MemoryClass;

namespace {

struct Slot {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};

constexpr Location kOnDevice{MemoryClass::kDevice, 0};
constexpr Location kPinnedHost{MemoryClass::kPinned, -1};
constexpr Location kOtherPinned{MemoryClass::kPinned, 7};
constexpr std::uint64_t kPage = 2 << 20;

}  // namespace

TEST_CASE("a flat map does what std::map does", "[unit]") {
  // The map holds about half of the keys. With 70,000 keys its slots are fuller than with 3,000.
  const std::uint64_t keys = GENERATE(3000u, 70'000u);
  FlatMap<Slot, &Slot::key> flat;
  std::map<std::uint64_t, std::uint64_t> ordered;
  std::mt19937_64 random(7);
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    const std::uint64_t key = (1 + random() % keys) * 512;
    Slot erased;
    if (random() % 2 == 0) {
      REQUIRE(flat.erase(key, erased) == (ordered.erase(key) == 1));
    } else if (flat.find(key) == nullptr) {
      REQUIRE(ordered.emplace(key, i).second);
      *flat.add(key) = {key, i};
    } else {
      REQUIRE(ordered.at(key) == flat.find(key)->value);
    }
  }
  REQUIRE(flat.size() == ordered.size());
  std::size_t visited = 0;
  flat.for_each([&](const Slot& slot) {
    ++visited;
    REQUIRE(ordered.at(slot.key) == slot.value);
  });
  CHECK(visited == ordered.size());
  CHECK(flat.find(0) == nullptr);
}

TEST_CASE("the clock is linear between calibrations and straight on outside", "[unit]") {
  Clock clock({{1000, 10'000'000, 0, 0}, {2000, 30'000'000, 0, 0}, {3000, 60'000'000, 0, 7}}, 0);
  clock.set_origin(10'000'000);
  CHECK(clock.to_job_ns(1000) == 0);
  CHECK(clock.to_job_ns(1500) == 10'000'000);
  CHECK(clock.to_job_ns(2500) == 35'000'000);
  CHECK(clock.to_job_ns(3100) == 52'500'000);
  CHECK(clock.to_job_ns(500) == 0);
  CHECK(clock.to_ticks(35'000'000) == 2500);
  CHECK(clock.calibrated());
}

TEST_CASE("two calibrations tell the rate, whatever the file's header says", "[unit]") {
  const Clock clock({{1000, 10'000'000, 0, 0}, {2000, 30'000'000, 0, 0}}, 1'000'000'000);
  CHECK(clock.to_job_ns(1500) == 20'000'000);
  CHECK(clock.to_job_ns(2500) == 40'000'000);
  CHECK(clock.duration_ns(10) == 200'000);
}

TEST_CASE("calibrations one after the other say nothing of a clock's rate", "[unit]") {
  // The recorder was held up for 9 ms between the first two calibrations.
  const Clock begun({{1000, 10'000'000, 0, 0}, {2000, 19'000'000, 0, 0}}, 0);
  CHECK_FALSE(knows_rate(begun));
  const Clock later(
      {{1000, 10'000'000, 0, 0}, {2000, 19'000'000, 0, 0}, {1'000'000, 1'000'000'000, 0, 0}}, 0);
  CHECK(knows_rate(later));
  CHECK_FALSE(knows_rate(Clock({{1000, 10'000'000, 0, 0}}, 0)));
  CHECK_FALSE(knows_rate(Clock()));
}

TEST_CASE("a clock without calibrations uses the rate of the file's header", "[unit]") {
  const Clock clock({}, 2'000'000'000);
  CHECK(clock.to_job_ns(2000) == 1000);
  CHECK_FALSE(clock.calibrated());
}

TEST_CASE("locations of copies: what lies where", "[unit]") {
  CopyLocations map;
  map.set(0x1000, 0x1000, kPinnedHost);
  map.set(0x2000, 0x1000, kPinnedHost);
  map.set(0x1800, 0x200, kOtherPinned);
  CHECK(map.find(0x0fff) == Location{});
  CHECK(map.find(0x1000) == kPinnedHost);
  CHECK(map.find(0x18ff) == kOtherPinned);
  CHECK(map.find(0x1a00) == kPinnedHost);
  CHECK(map.find(0x2fff) == kPinnedHost);
  CHECK(map.find(0x3000) == Location{});
  map.forget(0x1900, 0x1000);
  CHECK(map.find(0x1880) == kOtherPinned);
  CHECK(map.find(0x1900) == Location{});
  CHECK(map.find(0x2900) == kPinnedHost);
  map.set(~std::uint64_t{0} - 10, 100, kOnDevice);
  CHECK(map.find(~std::uint64_t{0} - 5) == kOnDevice);
}

TEST_CASE("device memory takes whole pages, but not from what is known to be host memory",
          "[unit]") {
  CopyLocations map;
  map.set(10 * kPage + 512, 512, kOnDevice);
  CHECK(map.find(10 * kPage) == kOnDevice);
  CHECK(map.find(11 * kPage - 1) == kOnDevice);
  CHECK(map.find(11 * kPage) == Location{});
  map.set(20 * kPage, 4096, kPinnedHost);
  map.set(20 * kPage + 8192, 512, kOnDevice);
  CHECK(map.find(20 * kPage + 100) == kPinnedHost);
  CHECK(map.find(20 * kPage + 8192) == kOnDevice);
  CHECK(map.find(20 * kPage + 8192 + 512) == Location{});
}

TEST_CASE("locations of copies agree with one entry a byte", "[unit]") {
  CopyLocations map;
  std::map<std::uint64_t, Location> bytes;
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t begin = random() % 200;
    const std::uint64_t length = 1 + random() % 30;
    const std::uint64_t what = random() % 3;
    if (what == 0) {
      map.forget(begin, length);
    } else {
      map.set(begin, length, what == 1 ? kOtherPinned : kPinnedHost);
    }
    for (std::uint64_t at = begin; at < begin + length; ++at) {
      bytes[at] = what == 0 ? Location{} : what == 1 ? kOtherPinned : kPinnedHost;
    }
    const std::uint64_t asked = random() % 240;
    REQUIRE(map.find(asked) == (bytes.count(asked) == 0 ? Location{} : bytes[asked]));
  }
}

TEST_CASE("free memory joins across mappings of a run and not across segments", "[unit]") {
  const std::vector<Unit> run = {{0x0000, 0x1000, 1}, {0x1000, 0x1000, 1}, {0x2000, 0x1000, 1}};
  const std::vector<LiveAllocation> block = {{0x0000, 0x800, 1, 0, 0}};
  const Fragmentation mapped = measure_fragmentation(run, block);
  CHECK(mapped.largest_free_bytes == 0x2800);
  CHECK(mapped.stranded_bytes == 0x800);
  CHECK(mapped.releasable_bytes == 0x2000);

  const std::vector<Unit> apart = {{0x0000, 0x1000, 1}, {0x1000, 0x1000, 2}, {0x2000, 0x1000, 3}};
  const Fragmentation segments = measure_fragmentation(apart, block);
  CHECK(segments.largest_free_bytes == 0x1000);
  CHECK(segments.free_bytes == 0x2800);
}

TEST_CASE("stranded memory is shared out among those who keep it and sums up", "[unit]") {
  const std::vector<Unit> unit = {{0x1000, 1000, 1}};
  const std::vector<LiveAllocation> blocks = {{0x1000, 100, 1, 7, 0}, {0x1000 + 500, 200, 1, 8, 0}};
  const Fragmentation result = measure_fragmentation(unit, blocks);
  CHECK(result.stranded_bytes == 700);
  CHECK(result.pins.at(7).held_bytes == 100);
  CHECK(result.pins.at(7).stranded_bytes == 233);
  CHECK(result.pins.at(8).stranded_bytes == 467);
}

TEST_CASE("modules have owners by their names", "[unit]") {
  CHECK(owner_of_module("/usr/lib/libcudart.so.13", "/bin/x").empty());
  CHECK(owner_of_module("/x/libtorch_cuda.so", "/bin/x") == "pytorch");
  CHECK(owner_of_module("/x/libcublasLt.so.13", "/bin/x") == "cublas");
  CHECK(owner_of_module("/x/site-packages/cupy/_core/core.cpython-312-x86_64-linux-gnu.so",
                        "/bin/x") == "cupy");
  CHECK(owner_of_module("/x/site-packages/fastops/fastops.so", "/bin/x") == "python_extension");
  CHECK(owner_of_module("/bin/x", "/bin/x") == "program");
  CHECK(owner_of_module("/home/me/libmine.so", "/bin/x") == "program");
}

}  // namespace gpumemtrace::analyzer_parts_test
