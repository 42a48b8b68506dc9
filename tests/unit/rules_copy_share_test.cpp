// SPDX-License-Identifier: Apache-2.0
// Copies lead to a warning if they take a part of the time themselves, not if they only wait.
#include "tests/catch.hpp"
#include "tests/support/finding_query.hpp"

namespace gpumemtrace::rules_copy_share_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x900000000;
constexpr std::uint64_t kPageable = 0x70000000;
constexpr std::uint64_t kMs = 1'000'000;

// The program reads a value `count` times, every `period_ns`, in calls of `call_ns`.
TraceBuilder reads(int count, std::uint64_t period_ns, std::uint64_t call_ns,
                   bool has_steps = false, std::uint64_t bytes = 4) {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, 64 * kMiB);
  const std::uint64_t begin = trace.now();
  for (int i = 0; i < count; ++i) {
    if (has_steps) trace.step(static_cast<std::uint64_t>(i));
    Call call = call_at(0x30);
    call.start = begin + static_cast<std::uint64_t>(i) * period_ns + 100;
    call.end = call.start + call_ns;
    trace.copy(kPageable, EndType::kHost, kAddress, EndType::kDevice, bytes, call);
  }
  return trace;
}

Json finding_on(TraceBuilder trace) { return finding_of(trace, "synchronous_copies"); }

}  // namespace

TEST_CASE("a copy that waits for the kernels of a step is no warning", "[unit]") {
  const Json found = finding_on(reads(200, 10 * kMs, 9 * kMs));
  CHECK(found.at("severity") == "info");
  CHECK(found.at("evidence").at("time_lost_ns") == 200 * 9 * kMs);
  CHECK(found.at("evidence").at("own_time_ns") == 200 * 10'000 + 200);
  CHECK(found.at("evidence").at("loop_ns") == 199 * 10 * kMs + 9 * kMs);
  CHECK(has(found, "less than 1 % of the time from the first of them to the last"));
}

TEST_CASE("copies that fill a loop are a warning", "[unit]") {
  const Json found = finding_on(reads(200, 50'000, 9'000));
  CHECK(found.at("severity") == "warning");
  CHECK(found.at("evidence").at("own_time_ns") == 200 * 9'000);
  CHECK(has(found, "By themselves they need at most 18 % of the time"));
}

TEST_CASE("of large copies the bytes count", "[unit]") {
  CHECK(finding_on(reads(200, 2 * kMs, kMs, false, 60 * 1024)).at("severity") == "info");
  CHECK(finding_on(reads(200, 2 * kMs, kMs, false, 4 * kMiB)).at("severity") == "warning");
}

TEST_CASE("a result that is read once a step is no warning at any share", "[unit]") {
  CHECK(finding_on(reads(200, 50'000, 9'000, true)).at("severity") == "info");
}

TEST_CASE("small copies beside much else are no warning", "[unit]") {
  const auto severity_of = [](std::uint64_t period_ns) {
    TraceBuilder trace = program_trace();
    constexpr std::uint64_t kPinned = 0x40000000;
    trace.allocate(kAddress, kMiB);
    trace.allocate(kPinned, kMiB, MemoryKind::kPinned);
    for (std::uint64_t i = 0; i < 1200; ++i) {
      Call call = call_at(0x30, 0, kFlagAsynchronous);
      call.start = 100'000 + i * period_ns;
      call.end = call.start + 3'000;
      trace.copy(kAddress, EndType::kDevice, kPinned, EndType::kHost, 512, call);
    }
    return finding_of(trace, "small_copies").at("severity");
  };
  CHECK(severity_of(5'000) == "warning");
  CHECK(severity_of(500'000) == "info");
}

}  // namespace gpumemtrace::rules_copy_share_test
