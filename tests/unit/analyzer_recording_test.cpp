// SPDX-License-Identifier: Apache-2.0
// Rows about a recording itself in the report: how it ended, its gaps, clock and process.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_recording_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

TEST_CASE("a trace that ended in order is complete", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  trace.free(0x10000000);
  const Json report = report_of(trace);
  const Json row = report.at("traces")[0];
  CHECK(row.at("complete") == true);
  CHECK(row.at("end") == "exit");
  CHECK(row.at("events") == 2);
  CHECK(report.at("leaks").at("state") == "checked");
  CHECK(report.at("leaks").at("exit").empty());
  CHECK(report.at("losses").empty());
}

TEST_CASE("a process that ended in an unknown way has no leaks, only what was live", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  const Json report = report_of(trace, Ending::kKilled);
  CHECK(report.at("traces")[0].at("end") == "unknown");
  CHECK(report.at("traces")[0].at("complete") == true);
  CHECK(report.at("leaks").at("state") == "not_applicable");
  CHECK(report.at("leaks").at("exit")[0].at("class") == "live_at_kill");
  CHECK(report.at("leaks").at("gated_bytes") == 0);
}

TEST_CASE("a trace ends by exec unless something says that it failed", "[unit]") {
  const auto end_of = [](TraceBuilder& trace) {
    return report_of(trace, Ending::kKilled).at("traces")[0].at("end");
  };
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB, MemoryKind::kDevice, {.writer = 2});
  trace.mark(MarkKind::kExec);
  SECTION("nothing follows") { CHECK(end_of(trace) == "exec"); }
  SECTION("another thread works for a moment more") {
    trace.allocate(0x20000000, kMiB, MemoryKind::kDevice, {.writer = 2});
    CHECK(end_of(trace) == "exec");
  }
  SECTION("the same thread goes on") {
    trace.allocate(0x20000000, kMiB);
    CHECK(end_of(trace) == "unknown");
  }
  SECTION("another thread still works seconds later") {
    trace.wait_until(trace.now() + 3'000'000'000);
    trace.allocate(0x20000000, kMiB, MemoryKind::kDevice, {.writer = 2});
    CHECK(end_of(trace) == "unknown");
  }
  SECTION("the process exits") {
    trace.mark(MarkKind::kExit);
    CHECK(end_of(trace) == "exit");
  }
}

TEST_CASE("a recording that stopped early is not complete and says why", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  trace.mark(MarkKind::kDisabled, "the disk is full");
  const Json report = report_of(trace, Ending::kKilled);
  const Json row = report.at("traces")[0];
  CHECK(row.at("complete") == false);
  CHECK(row.at("end") == "unknown");
  CHECK(row.at("notes")[0] == "Recording stopped before the process ended: the disk is full.");
  CHECK(report.at("losses")[0].at("name") == "recording_disabled");
  CHECK(report.at("leaks").at("state") == "not_applicable");
  CHECK(report.at("usage")[0].at("exact") == false);
}

TEST_CASE("what a gap may have falsified is not exact", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  Gap gap;
  SECTION("dropped allocations concern driver memory, not the framework's blocks") {
    gap.allocations = 3;
    trace.add(gap);
    trace.block(0x20000000, 512, 0);
    const Json report = report_of(trace);
    CHECK(usage_of(report, "device").at("exact") == false);
    CHECK_FALSE(usage_of(report, "block").contains("exact"));
    CHECK(report.at("traces")[0].at("dropped") == 3);
    CHECK(report.at("traces")[0].at("complete") == false);
    CHECK(row_where(report.at("losses"), {{"name", "dropped_allocations"}}).at("severity") ==
          "error");
  }
  SECTION("events without a stack are all there") {
    gap.stacks = 4;
    trace.add(gap);
    const Json report = report_of(trace);
    CHECK_FALSE(usage_of(report, "device").contains("exact"));
    CHECK(report.at("traces")[0].at("complete") == true);
    CHECK(loss_of(report, "stacks_left_out") == 4);
  }
  SECTION("dropped copies concern copies only") {
    gap.copies = 2;
    trace.add(gap);
    trace.copy(0x10000000, EndType::kDevice, 0x5000, EndType::kHost, 8);
    const Json report = report_of(trace);
    CHECK_FALSE(usage_of(report, "device").contains("exact"));
    CHECK(report.at("transfers").at("by_kind")[0].at("exact") == false);
  }
}

TEST_CASE("after a pause nothing is exact and unknown addresses stay unknown", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  trace.mark(MarkKind::kStopped);
  trace.mark(MarkKind::kStarted);
  trace.free(0x77770000);
  trace.copy(0x10000000, EndType::kDevice, 0x5000, EndType::kHost, 8);
  trace.copy(0x66660000, EndType::kUnified, 0x5000, EndType::kUnified, 9);
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("exact") == false);
  CHECK(report.at("traces")[0].at("complete") == false);
  CHECK(loss_of(report, "paused") == 1);
  CHECK(loss_of(report, "unknown_frees") == 1);
  const Json rows = report.at("transfers").at("by_kind");
  CHECK(row_where(rows, {{"bytes", 8}}).at("direction") == "host_to_device");
  CHECK(row_where(rows, {{"bytes", 8}}).at("source_memory") == "unknown");
  CHECK(row_where(rows, {{"bytes", 9}}).at("direction") == "unknown");
}

TEST_CASE("times are nanoseconds since the start of the job", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB, MemoryKind::kDevice,
                 {.start = TraceBuilder::kFirstTick + 200'000'000,
                  .end = TraceBuilder::kFirstTick + 300'000'000});
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("peak_time_ns") == 300'000'000);
  CHECK(loss_of(report, "clock_not_calibrated") == 0);
}

TEST_CASE("two processes on one device share its physical peak", "[unit]") {
  const TemporaryFolder folder;
  constexpr std::uint64_t kT = TraceBuilder::kFirstTick + 1'000'000;
  const auto write = [&](std::uint32_t pid, std::uint64_t begin, std::uint64_t end,
                         std::uint64_t mib) {
    TraceBuilder trace(pid);
    trace.text(TextKey::kBootId, "one-machine");
    trace.device(0, 0xabcdef, 80 * 1024 * kMiB);
    trace.allocate(0x10000000, mib * kMiB, MemoryKind::kDevice,
                   {.start = kT + begin, .end = kT + begin + 1});
    trace.free(0x10000000, MemoryKind::kDevice, {.start = kT + end, .end = kT + end + 1});
    return trace.write(folder.path());
  };
  // The processes hold 5 MiB alone, then 5 + 3 MiB together, then 7 MiB alone.
  write(1, 100, 300, 5);
  write(2, 200, 400, 3);
  write(3, 500, 600, 7);
  const Json report = analyze_json({folder.path()}, {});
  CHECK(report.at("processes").size() == 3);
  REQUIRE(report.at("devices").size() == 1);
  const Json device = report.at("devices")[0];
  CHECK(device.at("seen_as").size() == 3);
  CHECK(device.at("physical_peak").at("bytes") == 8 * kMiB);
  CHECK(device.at("physical_peak").at("time_ns") == 1'000'201);
}

TEST_CASE("two analyses of a trace are the same, byte for byte", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace;
  for (std::uint64_t i = 1; i < 500; ++i) {
    trace.allocate(i << 24, i * 4096, i % 3 == 0 ? MemoryKind::kStreamOrdered : MemoryKind::kDevice,
                   {.writer = static_cast<std::uint32_t>(1 + i % 4), .caller = 0x1000 + i % 7});
    if (i % 2 == 0) trace.free((i - 1) << 24);
  }
  const std::filesystem::path path = trace.write(folder.path());
  const std::string first = analyze_json({path}, {}).dump();
  CHECK(first == analyze_json({path}, {}).dump());
  CHECK(first == analyze_json({path, path}, {}).dump());
}

TEST_CASE("unusable input is one sentence that names the file", "[unit]") {
  const TemporaryFolder folder;
  const std::filesystem::path missing = folder.path() / "missing.gmt";
  const std::filesystem::path foreign = folder.path() / "foreign.gmt";
  std::ofstream(foreign) << "This is no trace, and long enough to hold a header of one, surely.";
  for (const std::filesystem::path& path : {missing, foreign}) {
    try {
      (void)analyze_json({path}, {});
      FAIL("no error for " << path);
    } catch (const gpumemtrace::analyzer::InputError& error) {
      CHECK(std::string(error.what()).find(path.filename().string()) != std::string::npos);
    }
  }
}

TEST_CASE("the facts of the process reach the report", "[unit]") {
  TraceBuilder trace;
  trace.text(TextKey::kExecutable, "/usr/bin/python3.12");
  trace.text(TextKey::kCommandLine, std::string("python3\0train.py\0--fast\0", 24));
  trace.text(TextKey::kRank, "3");
  trace.text(TextKey::kDriverVersion, "13000");
  trace.text(TextKey::kTorchVersion, "2.11.0");
  trace.text(TextKey::kToolVersion, "0.0.7");
  trace.api(1, "cuMemAlloc_v2", "cudaMalloc");
  Unwrapped unwrapped;
  trace.add(unwrapped, 1, "cuMemAllocMagic_v9");
  const Json report = report_of(trace);
  const Json process = report.at("processes")[0];
  CHECK(process.at("pid") == 100);
  CHECK(process.at("command") == Json({"python3", "train.py", "--fast"}));
  CHECK(process.at("rank") == 3);
  CHECK(process.at("cuda").at("driver_version") == 13000);
  CHECK(process.at("python").at("version") == "3.12");
  CHECK(process.at("torch").at("version") == "2.11.0");
  CHECK(report.at("coverage").at("wrapped") == 1);
  CHECK(report.at("coverage").at("resolved_unwrapped")[0].at("name") == "cuMemAllocMagic_v9");
  CHECK(report.at("traces")[0].at("recorder_version") == "0.0.7");
  TraceBuilder unnamed;
  CHECK(report_of(unnamed).at("traces")[0].at("recorder_version").is_null());
}

TEST_CASE("the title of a process that gave itself one is its command", "[unit]") {
  TraceBuilder trace;
  trace.text(TextKey::kCommandLine, std::string("ray::Trainer.step\0\0\0\0", 21));
  CHECK(report_of(trace).at("processes")[0].at("command") == Json({"ray::Trainer.step"}));
}

TEST_CASE("the error of the time of day is the larger one of those that the kernel gave",
          "[unit]") {
  const auto error_of = [](std::initializer_list<std::pair<RealtimeState, std::uint64_t>> answers) {
    TraceBuilder trace;
    for (const auto& [state, max_error_ns] : answers) {
      trace.wait_until(trace.now() + 1'000'000'000);
      Clock clock;
      clock.record.time = clock.monotonic_ns = trace.now();
      clock.realtime_state = state;
      clock.realtime_error_ns = max_error_ns / 10;
      clock.realtime_max_error_ns = max_error_ns;
      trace.add(clock, 0);
    }
    return report_of(trace).at("processes")[0].at("time_of_day_error");
  };
  const Json known = error_of({{RealtimeState::kSynchronized, 2'000},
                               {RealtimeState::kNotAsked, 0},
                               {RealtimeState::kSynchronized, 5'000}});
  CHECK(known.at("max_ns") == 5'000);
  CHECK(known.at("estimated_ns") == 500);
  CHECK(known.at("reason").is_null());
  const Json unsynchronized = error_of(
      {{RealtimeState::kSynchronized, 2'000}, {RealtimeState::kUnsynchronized, 16'000'000'000}});
  CHECK(unsynchronized.at("max_ns").is_null());
  CHECK(unsynchronized.at("reason") == "Nothing synchronized the host's clock.");
  const Json older = error_of({});
  CHECK(older.at("max_ns").is_null());
  CHECK(older.at("reason") == "The trace does not have it.");
}

}  // namespace gpumemtrace::analyzer_recording_test
