// SPDX-License-Identifier: Apache-2.0
// The rules that need CUPTI's records.
#include "tests/catch.hpp"
#include "tests/support/activity_builder.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::rules_activity_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kDevice = 0x7000'1000'0000;
constexpr std::uint64_t kPageable = 0x5500'0000'1000;
constexpr std::uint64_t kPinnedHost = 0x7f00'0010'0000;
constexpr std::uint64_t kBytes = 4 * kMiB;
constexpr std::uint32_t kCopies = 8;
// The link is PCI Express gen 4 with 16 lanes.
constexpr std::uint64_t kLinkNs = kBytes * 1'000'000'000 / 31'507'692'307;

// Copies to the device, ten milliseconds apart, each of which takes `gpu_ns` on the GPU.
struct Copies {
  TraceBuilder trace;
  ActivityBuilder cupti{trace};

  void add(std::uint64_t source, std::uint64_t gpu_ns, bool asynchronous) {
    cupti.thread(1, 4711);
    cupti.state(ActivityMode::kFull);
    cupti.clock(2'000'000);
    Device device;
    device.ordinal = 0;
    device.pcie_generation = 4;
    device.pcie_width = 16;
    trace.add(device, 1, "Test GPU");
    trace.allocate(kDevice, kBytes);
    trace.allocate(kPinnedHost, kBytes, MemoryKind::kPinned);
    for (std::uint32_t i = 0; i < kCopies; ++i) {
      const std::uint64_t at = begin_of(i);
      Call call{.start = at, .end = at + 20'000};
      if (asynchronous) call.flags = kFlagAsynchronous;
      trace.copy(kDevice, EndType::kDevice, source, EndType::kHost, kBytes, call);
      cupti.call(ActivityDomain::kDriver, i + 1, 4711, {at + 100, at + 19'000});
      CopyRecord record;
      record.correlation = i + 1;
      record.source_kind = source == kPageable ? kPageableKind : kPinnedKind;
      record.taken_over = at + 5'000'000;
      cupti.copy(kBytes, {at + 10'000, at + 10'000 + gpu_ns}, record);
    }
  }
  static std::uint64_t begin_of(std::uint32_t copy) { return 10'000'000 * (copy + 1ull); }
  Json report() {
    trace.wait_until(200'000'000);
    cupti.clock(trace.now());
    return report_of(trace);
  }
};

Json finding_of(const Json& report, const char* rule) {
  return row_where(report.at("findings"), {{"rule", rule}});
}

}  // namespace

TEST_CASE("large copies that fill a small part of the link are found, with their cause", "[unit]") {
  Copies copies;
  copies.add(kPageable, 4 * kLinkNs, false);
  const Json report = copies.report();
  const Json finding = finding_of(report, "low_bandwidth");
  REQUIRE_FALSE(finding.is_null());
  CHECK(finding.at("evidence").at("link_share").get<double>() == Approx(0.25).epsilon(0.001));
  CHECK(finding.at("title").get<std::string>().find("reach 25 %") != std::string::npos);
  CHECK(finding.at("detail").get<std::string>().find("host memory is pageable") !=
        std::string::npos);
  CHECK(finding.at("fix").get<std::string>().find("cudaMallocHost") != std::string::npos);
  const Json hotspot = report.at("transfers").at("hotspots")[0];
  const auto lost_ns = hotspot.at("time_lost_ns").get<double>();
  CHECK(lost_ns == Approx(3.0 * kLinkNs * kCopies).epsilon(0.001));
}

TEST_CASE("pinned copies that are slow are the machine's fault", "[unit]") {
  Copies copies;
  copies.add(kPinnedHost, 4 * kLinkNs, true);
  const Json finding = finding_of(copies.report(), "low_bandwidth");
  REQUIRE_FALSE(finding.is_null());
  CHECK(finding.at("fix").get<std::string>().find("numactl") != std::string::npos);
}

TEST_CASE("copies near the link's bandwidth, or over a link that is not known, are not found",
          "[unit]") {
  Copies copies;
  copies.add(kPinnedHost, kLinkNs + kLinkNs / 5, true);
  CHECK(finding_of(copies.report(), "low_bandwidth").is_null());
  Copies faster;  // faster than PCI Express can be: the copies took another link
  faster.add(kPinnedHost, kLinkNs / 2, true);
  const Json report = faster.report();
  CHECK(finding_of(report, "low_bandwidth").is_null());
  CHECK(report.at("transfers").at("by_kind")[0].at("link_share").is_null());
}

TEST_CASE("asynchronous copies that run beside no kernel are found", "[unit]") {
  Copies copies;
  copies.add(kPinnedHost, 2 * kLinkNs - 1000, true);
  SECTION("with kernels elsewhere") {
    for (std::uint32_t i = 0; i < kCopies; ++i) {
      const std::uint64_t at = Copies::begin_of(i) + 2'000'000;
      copies.cupti.kernel({at, at + 500'000});
    }
    const Json finding = finding_of(copies.report(), "copies_not_hidden");
    REQUIRE_FALSE(finding.is_null());
    CHECK(finding.at("evidence").at("overlapped_ns") == 0);
    CHECK(finding.at("evidence").at("time_lost_ns") == finding.at("evidence").at("gpu_time_ns"));
  }
  SECTION("not with kernels beside them") {
    for (std::uint32_t i = 0; i < kCopies; ++i) {
      const std::uint64_t at = Copies::begin_of(i);
      copies.cupti.kernel({at, at + 200'000});
    }
    CHECK(finding_of(copies.report(), "copies_not_hidden").is_null());
  }
  SECTION("not without records of kernels") {
    CHECK(finding_of(copies.report(), "copies_not_hidden").is_null());
  }
}

TEST_CASE("managed memory that goes back and forth is found", "[unit]") {
  TraceBuilder trace;
  ActivityBuilder cupti(trace);
  cupti.state(ActivityMode::kFull);
  cupti.clock(2'000'000);
  trace.module(0x1000, 0x9000, "/tmp/a.out");
  trace.allocate(kDevice, kMiB, MemoryKind::kManaged, {.caller = 0x1100});
  const auto move = [&](std::uint32_t counter, std::uint64_t bytes) {
    ActivityManaged record;
    record.start = cupti.shown(trace.now() + 1);
    record.end = record.start + 1000;
    record.address = kDevice;
    record.value = bytes;
    record.counter = counter;
    trace.wait_until(trace.now() + 2000);
    trace.add(record, ActivityBuilder::kWriter);
  };
  const auto finding = [&] {
    cupti.clock(trace.now() + 1000);
    return finding_of(report_of(trace), "managed_thrash");
  };
  for (int i = 0; i < 3; ++i) move(1, kMiB);
  SECTION("both ways") {
    for (int i = 0; i < 3; ++i) move(2, kMiB);
    const Json found = finding();
    REQUIRE_FALSE(found.is_null());
    CHECK(found.at("evidence").at("round_trips") == 3);
    CHECK(found.at("evidence").at("migration_time_ns") == 6000);
    CHECK(found.at("level") == "managed");
  }
  SECTION("not one way") {
    move(2, kMiB / 2);
    CHECK(finding().is_null());
  }
}

}  // namespace gpumemtrace::rules_activity_test
