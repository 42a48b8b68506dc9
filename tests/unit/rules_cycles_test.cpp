// SPDX-License-Identifier: Apache-2.0
// Memory that Python's cycle collector freed.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::rules_cycles_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kBlocks = 8;

// Rounds of allocations and frees; the flags of the frees say whether Python's cycle collector made
// them.
class Rounds {
 public:
  void add(std::uint64_t bytes, std::uint16_t flags, MemoryKind memory = MemoryKind::kDevice) {
    for (std::uint64_t i = 0; i < kBlocks; ++i) trace.allocate(address_of(i), bytes, memory);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      trace.free(address_of(i), memory, {.flags = flags});
    }
  }
  // Only the findings on reference cycles: another rule reports allocations that come and go.
  Json findings() {
    Json found = Json::array();
    const Json report = report_of(trace);
    for (const Json& finding : report.at("findings")) {
      if (finding.at("rule") == "reference_cycles") found.push_back(finding);
    }
    return found;
  }

  TraceBuilder trace;

 private:
  static std::uint64_t address_of(std::uint64_t number) { return 0x100000000 + number * 64 * kMiB; }
};

}  // namespace

TEST_CASE("what each of several collections frees of one place is told with the largest",
          "[unit]") {
  Rounds rounds;
  rounds.add(2 * kMiB, kFlagCollected);
  rounds.add(4 * kMiB, kFlagCollected);
  rounds.add(4 * kMiB, 0);
  rounds.add(3 * kMiB, kFlagCollected);
  const Json found = rounds.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("confidence") == "inferred");
  CHECK(found[0].at("bytes") == kBlocks * 4 * kMiB);
  CHECK(found[0].at("evidence").at("count") == 3 * kBlocks);
  CHECK(found[0].at("evidence").at("collections") == 3);
  CHECK(found[0].at("evidence").at("collected_bytes") == kBlocks * 9 * kMiB);
  CHECK(found[0].at("fix").get<std::string>().find("weakref") != std::string::npos);
}

TEST_CASE("stream-ordered memory and framework blocks are collected like the driver's", "[unit]") {
  Rounds pool;
  for (int i = 0; i < 3; ++i) pool.add(4 * kMiB, kFlagCollected, MemoryKind::kStreamOrdered);
  REQUIRE(pool.findings().size() == 1);
  CHECK(pool.findings()[0].at("level") == "pool");

  TraceBuilder trace;
  for (int i = 0; i < 3; ++i) {
    trace.block(0x200000000, 32 * kMiB, 32 * kMiB);
    Block freed;
    freed.record.flags = kFlagCollected;
    freed.address = 0x200000000;
    freed.bytes = -static_cast<std::int64_t>(32 * kMiB);
    freed.device_type = 1;
    freed.device = 0;
    trace.add(freed);
  }
  const Json found = report_of(trace).at("findings");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("level") == "framework");
  CHECK(found[0].at("evidence").at("collections") == 3);
}

TEST_CASE("small garbage, two large collections and frees outside of collections are no fault",
          "[unit]") {
  Rounds small;
  for (int i = 0; i < 100; ++i) small.add(kMiB / 64, kFlagCollected);
  CHECK(small.findings().empty());
  Rounds few;
  few.add(32 * kMiB, kFlagCollected);
  CHECK(few.findings().empty());
  Rounds counted;
  for (int i = 0; i < 5; ++i) counted.add(32 * kMiB, 0);
  CHECK(counted.findings().empty());
  // Frees by Python's cycle collector become a finding when it has run three times.
  for (int i = 0; i < 2; ++i) {
    CHECK(few.findings().empty());
    few.add(32 * kMiB, kFlagCollected);
  }
  CHECK(few.findings().size() == 1);
}

TEST_CASE("what other threads do meanwhile is not part of a collection and does not end it",
          "[unit]") {
  Rounds rounds;
  for (std::uint64_t i = 0; i < 3; ++i) {
    for (std::uint64_t j = 0; j < kBlocks; ++j) {
      rounds.trace.allocate(0x100000000 + j * 64 * kMiB, 4 * kMiB);
    }
    for (std::uint64_t j = 0; j < kBlocks; ++j) {
      rounds.trace.free(0x100000000 + j * 64 * kMiB, MemoryKind::kDevice,
                        {.flags = kFlagCollected});
      rounds.trace.allocate(0x900000000, kMiB, MemoryKind::kDevice, {.writer = 2});
      rounds.trace.free(0x900000000, MemoryKind::kDevice, {.writer = 2});
    }
  }
  const Json found = rounds.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("evidence").at("collections") == 3);
  CHECK(found[0].at("bytes") == kBlocks * 4 * kMiB);
}

}  // namespace gpumemtrace::rules_cycles_test
