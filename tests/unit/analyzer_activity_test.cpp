// SPDX-License-Identifier: Apache-2.0
// Joins CUPTI's records to calls: which call a copy on the GPU belongs to, and how long it took.
#include "tests/catch.hpp"
#include "tests/support/activity_builder.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_activity_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kDevice = 0x7000'1000'0000;
constexpr std::uint64_t kHost = 0x5500'0000'1000;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kThreadId = 4711;
constexpr std::uint64_t kPthreadSelf = 0x7f12'3456'7740;
constexpr std::uint32_t kLowHalf = 0x3456'7740;

// A trace of one thread with one device allocation and CUPTI on; CUPTI's clock is the time of day.
struct Traced {
  TraceBuilder trace;
  ActivityBuilder cupti{trace};

  Traced() {
    cupti.thread(1, kThreadId, kPthreadSelf);
    cupti.state(ActivityMode::kCopies);
    cupti.clock(2'000'000);
    trace.allocate(kDevice, 64 * kMiB);
    trace.wait_until(3'000'000);
  }
  void up(std::uint64_t bytes, Interval time, std::uint16_t api = 1, std::uint32_t writer = 1) {
    trace.copy(kDevice, EndType::kDevice, kHost, EndType::kHost, bytes,
               {.writer = writer, .start = time.start, .end = time.end, .api = api});
  }
  Json report(Ending ending = Ending::kExit) {
    cupti.clock(trace.now() + kSecond);
    trace.wait_until(trace.now() + kSecond);
    return report_of(trace, ending);
  }
};

Json only_copy(const Json& report) {
  REQUIRE(report.at("transfers").at("by_kind").size() == 1);
  return report.at("transfers").at("by_kind")[0];
}

Json join_of(const Json& report) { return report.at("processes")[0].at("cupti").at("join"); }

}  // namespace

TEST_CASE("a call of the runtime gets the time that its copy took on the GPU", "[unit]") {
  Traced traced;
  traced.up(1000, {4'000'100, 4'000'900});
  traced.cupti.copy(1000, {4'000'400, 4'000'600}, {.correlation = 12});
  traced.cupti.call(ActivityDomain::kRuntime, 12, kLowHalf, {4'000'000, 4'001'000});
  const Json report = traced.report();
  const Json row = only_copy(report);
  CHECK(row.at("gpu_time_ns") == 200);
  CHECK(row.at("gpu_busy_ns") == 200);
  CHECK(row.at("joined_count") == 1);
  CHECK(row.at("joined_bytes") == 1000);
  CHECK(row.at("bandwidth_bytes_per_s") == 5e9);
  CHECK(row.at("overlapped_ns").is_null());
  CHECK(row.at("link_share").is_null());
  CHECK(report.at("transfers").at("unjoined") == 0);
  CHECK(join_of(report).at("joined_exact") == 1);
  CHECK(join_of(report).at("calls") == 1);
  CHECK(report.at("processes")[0].at("cupti").at("state") == "copies");
  CHECK(report.at("processes")[0].at("cupti").at("version") == "130001");
}

TEST_CASE("a record of the driver lies inside the call, whose thread it names by its id",
          "[unit]") {
  Traced traced;
  traced.up(1000, {4'000'000, 4'001'000});
  traced.up(1000, {4'001'200, 4'002'000}, 2);
  traced.trace.api(2, "cuSecond", "");
  traced.cupti.call(ActivityDomain::kDriver, 13, kThreadId, {4'001'300, 4'001'900});
  traced.cupti.copy(1000, {4'001'350, 4'001'400}, {.correlation = 13});
  const Json report = traced.report();
  const Json row = row_where(report.at("transfers").at("by_kind"), {{"api", "cuSecond"}});
  CHECK(row.at("gpu_time_ns") == 50);
  CHECK(join_of(report).at("joined_exact") == 1);
}

TEST_CASE("records may come seconds after their call, in any order", "[unit]") {
  Traced traced;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t at = 4'000'000 + i * 10'000;
    traced.up(100 + i, {at, at + 2'000}, static_cast<std::uint16_t>(1 + i));
    traced.trace.api(static_cast<std::uint32_t>(1 + i), "cu" + std::to_string(i), "");
  }
  traced.trace.wait_until(7 * kSecond);
  for (std::uint64_t i = 100; i-- > 0;) {
    const auto correlation = static_cast<std::uint32_t>(1000 + i);
    const std::uint64_t at = 4'000'000 + i * 10'000;
    traced.cupti.copy(100 + i, {at + 5'000, at + 5'010 + i}, {.correlation = correlation});
    if (i % 2 == 0) {
      traced.cupti.call(ActivityDomain::kRuntime, correlation, kLowHalf, {at - 200, at + 2'200});
    } else {
      traced.cupti.call(ActivityDomain::kDriver, correlation, kThreadId, {at + 20, at + 1'900});
    }
  }
  const Json report = traced.report();
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Json row =
        row_where(report.at("transfers").at("by_kind"), {{"api", "cu" + std::to_string(i)}});
    CHECK(row.at("gpu_time_ns") == 10 + i);
    CHECK(row.at("joined_bytes") == 100 + i);
  }
  CHECK(join_of(report).at("joined_exact") == 100);
}

TEST_CASE("a pageable copy that was carried out in pieces is one call, busy from first to last",
          "[unit]") {
  Traced traced;
  traced.up(3000, {4'000'000, 4'009'000});
  traced.cupti.call(ActivityDomain::kDriver, 5, kThreadId, {4'000'010, 4'008'990});
  traced.cupti.copy(1000, {4'000'100, 4'001'100}, {.correlation = 5});
  traced.cupti.copy(1000, {4'004'100, 4'005'100}, {.correlation = 5});
  traced.cupti.copy(1000, {4'002'100, 4'003'100}, {.correlation = 5});
  const Json row = only_copy(traced.report());
  CHECK(row.at("gpu_time_ns") == 3000);
  CHECK(row.at("gpu_busy_ns") == 5000);
  CHECK(row.at("joined_count") == 1);
  CHECK(row.at("joined_bytes") == 3000);
  CHECK(row.at("bandwidth_bytes_per_s") == 0.6e9);
}

TEST_CASE("a batch is one call, told by one record or by one a part", "[unit]") {
  const auto add_batch = [](Traced& traced, std::uint64_t at) {
    for (std::uint32_t part = 0; part < 3; ++part) {
      Copy copy;
      copy.destination = part == 1 ? kHost : kDevice;
      copy.destination_type = EndType::kUnified;
      copy.source = part == 1 ? kDevice : kHost;
      copy.source_type = EndType::kUnified;
      copy.bytes = 100 * (part + 1);
      copy.part = part;
      traced.trace.add_call(copy, {.start = at, .end = at + 3000});
    }
  };
  Traced traced;
  add_batch(traced, 4'000'000);
  SECTION("one record") {
    traced.cupti.call(ActivityDomain::kRuntime, 5, kLowHalf, {3'999'000, 4'003'100});
    traced.cupti.copy(600, {4'001'000, 4'007'000}, {.correlation = 5});
  }
  SECTION("one record, and nothing about the call") {
    traced.cupti.copy(600, {4'001'000, 4'007'000}, {.correlation = 5, .copy_kind = 0});
  }
  SECTION("a record a part") {
    traced.cupti.call(ActivityDomain::kDriver, 5, kLowHalf, {4'000'100, 4'002'900});
    traced.cupti.copy(200, {4'002'000, 4'004'000}, {.correlation = 5});
    traced.cupti.copy(100, {4'001'000, 4'002'000}, {.correlation = 5});
    traced.cupti.copy(300, {4'004'000, 4'007'000}, {.correlation = 5});
  }
  const Json report = traced.report();
  const Json rows = report.at("transfers").at("by_kind");
  const Json up = row_where(rows, {{"direction", "host_to_device"}});
  const Json down = row_where(rows, {{"direction", "device_to_host"}});
  CHECK(up.at("gpu_time_ns") == 4000);
  CHECK(up.at("joined_count") == 2);
  CHECK(up.at("joined_bytes") == 400);
  CHECK(down.at("gpu_time_ns") == 2000);
  CHECK(report.at("transfers").at("unjoined") == 0);
}

TEST_CASE("two calls of the driver within one of the runtime keep their own copies", "[unit]") {
  Traced traced;
  traced.up(3072, {4'000'000, 4'001'000});
  traced.up(1020, {4'001'500, 4'002'000});
  traced.cupti.call(ActivityDomain::kRuntime, 5, kLowHalf, {3'999'000, 4'003'000});
  traced.cupti.copy(3072, {4'005'000, 4'007'000}, {.correlation = 5});
  traced.cupti.copy(1020, {4'008'000, 4'009'000}, {.correlation = 5});
  const Json row = traced.report().at("transfers").at("by_kind")[0];
  CHECK(row.at("joined_count") == 2);
  CHECK(row.at("joined_bytes") == 4092);
  CHECK(row.at("gpu_time_ns") == 3000);
}

TEST_CASE("what a graph copies and sets counts where the graph was launched", "[unit]") {
  Traced traced;
  traced.trace.api(8, "cuGraphLaunch", "cudaGraphLaunch");
  for (std::uint32_t launch = 0; launch < 2; ++launch) {
    const std::uint64_t at = 4'000'000 + launch * 100'000;
    Graph record;
    record.operation = GraphOperation::kLaunch;
    record.graph = 0x99;
    traced.trace.add_call(record, {.start = at, .end = at + 5'000, .api = 8});
    traced.cupti.call(ActivityDomain::kRuntime, 30 + launch, kLowHalf, {at - 100, at + 5'100});
    for (std::uint64_t node = 1; node <= 2; ++node) {
      traced.cupti.copy(4096, {at + node * 10'000, at + node * 10'000 + 500},
                        {.correlation = 30 + launch,
                         .copy_kind = kCopyDeviceToDevice,
                         .source_kind = kDeviceKind,
                         .graph_node = node});
    }
    traced.cupti.set(64, {at + 30'000, at + 30'100}, 30 + launch, 3);
  }
  const Json report = traced.report();
  const Json row = only_copy(report);
  CHECK(row.at("api") == "cuGraphLaunch");
  CHECK(row.at("in_graph") == true);
  CHECK(row.at("direction") == "device_to_device");
  CHECK(row.at("count") == 4);
  CHECK(row.at("bytes") == 4 * 4096);
  CHECK(row.at("gpu_time_ns") == 2000);
  const Json set = report.at("transfers").at("sets")[0];
  CHECK(set.at("count") == 2);
  CHECK(set.at("gpu_time_ns") == 200);
}

TEST_CASE("a launch whose record was taken over before it returned is found all the same",
          "[unit]") {
  Traced traced;
  Graph record;
  record.operation = GraphOperation::kLaunch;
  record.graph = 0x99;
  traced.trace.add_call(record, {.start = 4'000'000, .end = 4'005'000, .api = 8});
  traced.cupti.call(ActivityDomain::kDriver, 30, kLowHalf, {4'000'100, 4'003'000}, 4'003'500);
  traced.cupti.copy(4096, {4'001'000, 4'001'500},
                    {.correlation = 30,
                     .copy_kind = 8,
                     .source_kind = 3,
                     .graph_node = 1,
                     .taken_over = 4'003'600});
  CHECK(only_copy(traced.report()).at("gpu_time_ns") == 500);
}

TEST_CASE("calls of threads at the same time are told apart by their thread", "[unit]") {
  Traced traced;
  constexpr std::uint32_t kThreads = 20;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    const std::uint32_t writer = 100 + i;
    traced.cupti.thread(writer, 5000 + i, 0x7f00'0000'0000 + i * 0x1000);
    traced.up(100, {4'000'000, 4'010'000}, static_cast<std::uint16_t>(10 + i), writer);
    traced.trace.api(10 + i, "cu" + std::to_string(i), "");
  }
  for (std::uint32_t i = kThreads; i-- > 0;) {
    traced.cupti.copy(100, {4'020'000, 4'020'100 + i}, {.correlation = 50 + i});
    // CUPTI's thread id: the low half of pthread_self(), or the system's id.
    const std::uint32_t id = i % 2 == 0 ? i * 0x1000 : 5000 + i;
    traced.cupti.call(ActivityDomain::kDriver, 50 + i, id, {4'000'100, 4'009'000});
  }
  const Json report = traced.report();
  for (std::uint32_t i = 1; i < kThreads; ++i) {
    const Json row =
        row_where(report.at("transfers").at("by_kind"), {{"api", "cu" + std::to_string(i)}});
    CHECK(row.at("gpu_time_ns") == 100 + i);
  }
}

TEST_CASE("a thread that took over another one's pthread_self is not taken for it", "[unit]") {
  Traced traced;
  traced.up(100, {4'000'000, 4'001'000}, 2);
  traced.cupti.thread(2, 4712, kPthreadSelf);
  traced.up(100, {4'005'000, 4'006'000}, 3, 2);
  traced.trace.api(2, "cuFirst", "");
  traced.trace.api(3, "cuSecond", "");
  traced.cupti.call(ActivityDomain::kDriver, 1, kLowHalf, {4'000'100, 4'000'900});
  traced.cupti.call(ActivityDomain::kDriver, 2, kLowHalf, {4'005'100, 4'005'900});
  traced.cupti.copy(100, {4'000'200, 4'000'210}, {.correlation = 1});
  traced.cupti.copy(100, {4'005'200, 4'005'230}, {.correlation = 2});
  const Json rows = traced.report().at("transfers").at("by_kind");
  CHECK(row_where(rows, {{"api", "cuFirst"}}).at("gpu_time_ns") == 10);
  CHECK(row_where(rows, {{"api", "cuSecond"}}).at("gpu_time_ns") == 30);
}

TEST_CASE("without records of calls, size and the order of correlations find the call", "[unit]") {
  Traced traced;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::uint64_t at = 4'000'000 + i * 10'000;
    traced.up(i % 2 == 0 ? 100 : 200, {at, at + 1'000}, static_cast<std::uint16_t>(1 + i));
    traced.trace.api(1 + i, "cu" + std::to_string(i), "");
  }
  for (std::uint32_t i = 6; i-- > 0;) {  // CUPTI delivers the copies in the wrong order
    const std::uint64_t at = 4'000'000 + i * 10'000;
    traced.cupti.copy(i % 2 == 0 ? 100 : 200, {at + 60'000, at + 60'100 + i},
                      {.correlation = 20 + 3 * i});
  }
  const Json report = traced.report();
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Json row =
        row_where(report.at("transfers").at("by_kind"), {{"api", "cu" + std::to_string(i)}});
    CHECK(row.at("gpu_time_ns") == 100 + i);
  }
  CHECK(join_of(report).at("joined_inferred") == 6);
  CHECK(loss_of(report, "activity_inferred") == 6);
}

TEST_CASE("an older CUPTI is not waited for", "[unit]") {
  Traced traced;
  traced.cupti.state(ActivityMode::kCopies, 18);
  traced.up(100, {4'000'000, 4'001'000});
  traced.cupti.copy(100, {4'000'500, 4'000'600}, {.correlation = 3});
  const Json report = traced.report();
  CHECK(only_copy(report).at("gpu_time_ns") == 100);
  CHECK(join_of(report).at("joined_inferred") == 1);
}

TEST_CASE("a record whose call is not in the trace is counted, and the next ones find theirs",
          "[unit]") {
  Traced traced;
  traced.up(100, {4'000'000, 4'001'000});
  traced.up(100, {4'004'000, 4'005'000}, 2);
  traced.trace.api(2, "cuLast", "");
  for (std::uint32_t i = 0; i < 3; ++i) {  // the trace lacks the second call
    const std::uint64_t at = 4'000'000 + i * 2'000;
    traced.cupti.call(ActivityDomain::kDriver, 1 + i, kThreadId, {at + 100, at + 900});
    traced.cupti.copy(100, {at + 200, at + 210 + i}, {.correlation = 1 + i});
  }
  const Json report = traced.report();
  CHECK(row_where(report.at("transfers").at("by_kind"), {{"api", "cuLast"}}).at("gpu_time_ns") ==
        12);
  CHECK(report.at("transfers").at("unjoined") == 1);
  CHECK(join_of(report).at("unjoined_by_reason") == Json{{"no_call", 1}});
  CHECK(loss_of(report, "activity_unjoined") == 1);
}

TEST_CASE("what two copies of libcupti report counts once", "[unit]") {
  Traced traced;
  traced.cupti.clock(2'000'000, 0, 1);
  traced.cupti.clock(9'000'000, 0, 1);
  traced.up(100, {4'000'000, 4'001'000});
  for (std::uint16_t library = 0; library < 2; ++library) {
    traced.cupti.call(ActivityDomain::kDriver, 7, kThreadId, {4'000'100, 4'000'900}, 0, library);
    traced.cupti.copy(100, {4'000'200, 4'000'300}, {.correlation = 7, .library = library});
  }
  const Json report = traced.report();
  CHECK(only_copy(report).at("gpu_time_ns") == 100);
  CHECK(join_of(report).at("unjoined_by_reason") == Json{{"other_library", 1}});
}

TEST_CASE("a call that was captured or failed has no copy, and takes none from its neighbour",
          "[unit]") {
  Traced traced;
  traced.trace.copy(kDevice, EndType::kDevice, kHost, EndType::kHost, 100,
                    {.start = 4'000'000, .end = 4'001'000, .flags = kFlagCaptured});
  traced.trace.copy(kDevice, EndType::kDevice, kHost, EndType::kHost, 100,
                    {.start = 4'001'100, .end = 4'002'000, .result = 1});
  traced.up(100, {4'002'100, 4'003'000});
  traced.cupti.call(ActivityDomain::kDriver, 1, kThreadId, {4'000'100, 4'000'900});
  traced.cupti.call(ActivityDomain::kDriver, 2, kThreadId, {4'001'200, 4'001'900});
  traced.cupti.call(ActivityDomain::kDriver, 3, kThreadId, {4'002'200, 4'002'900});
  traced.cupti.copy(100, {4'002'300, 4'002'400}, {.correlation = 3});
  CHECK(only_copy(traced.report()).at("gpu_time_ns") == 100);
}

TEST_CASE("CUPTI's word for a copy's memory is held against the recorded allocations", "[unit]") {
  Traced traced;
  traced.up(100, {4'000'000, 4'001'000});
  traced.cupti.call(ActivityDomain::kDriver, 1, kThreadId, {4'000'100, 4'000'900});
  traced.cupti.copy(100, {4'000'200, 4'000'300}, {.correlation = 1, .source_kind = kPinnedKind});
  const Json report = traced.report();
  CHECK(only_copy(report).at("source_memory") == "pageable");
  CHECK(loss_of(report, "copy_memory_disagreements") == 1);
}

TEST_CASE("copies are summed by stream, joined or not", "[unit]") {
  Traced traced;
  traced.trace.wait_until(5'000'000);
  traced.cupti.copy(100, {4'000'200, 4'000'300}, {.correlation = 1, .stream = 7});
  traced.cupti.copy(300, {4'000'300, 4'000'350}, {.correlation = 2, .stream = 13});
  traced.cupti.copy(100, {4'000'400, 4'000'450}, {.correlation = 3, .stream = 7});
  const Json report = traced.report();
  const Json streams = report.at("transfers").at("streams");
  REQUIRE(streams.size() == 2);
  CHECK(streams[0].at("stream") == 13);
  CHECK(streams[0].at("bytes") == 300);
  CHECK(streams[1].at("count") == 2);
  CHECK(streams[1].at("gpu_time_ns") == 150);
  CHECK(report.at("transfers").at("unjoined") == 3);
}

TEST_CASE("a copy's share of PCI Express follows from the device's link", "[unit]") {
  Traced traced;
  Device device;
  device.ordinal = 0;
  device.pcie_generation = 4;
  device.pcie_width = 16;
  traced.trace.add(device, 1, "Test GPU");
  traced.up(31'508, {4'000'000, 4'009'000});
  traced.cupti.call(ActivityDomain::kDriver, 1, kThreadId, {4'000'100, 4'008'900});
  traced.cupti.copy(31'508, {4'001'000, 4'003'000}, {.correlation = 1});
  const Json report = traced.report();
  CHECK(only_copy(report).at("link_share") == 0.5);
  const Json link = report.at("devices")[0].at("link");
  CHECK(link.at("generation") == 4);
  CHECK(link.at("bytes_per_s").get<double>() == Approx(31.508e9).epsilon(0.0001));
}

TEST_CASE("copies that run beside kernels are told apart from those that run alone", "[unit]") {
  Traced traced;
  traced.up(100, {4'000'000, 4'001'000});
  traced.cupti.call(ActivityDomain::kDriver, 1, kThreadId, {4'000'100, 4'000'900});
  traced.cupti.copy(100, {4'010'000, 4'020'000}, {.correlation = 1});
  traced.cupti.kernel({4'005'000, 4'012'000});
  traced.cupti.kernel({4'011'000, 4'013'000});  // at the same time as the copy, on another stream
  traced.cupti.kernel({4'018'000, 4'018'500});
  traced.cupti.kernel({4'010'000, 4'020'000}, 1);  // a kernel on another device
  CHECK(only_copy(traced.report()).at("overlapped_ns") == 3500);
}

TEST_CASE("dropped records of CUPTI are losses by name", "[unit]") {
  Traced traced;
  ActivityDropped dropped;
  dropped.by_cupti = 3;
  dropped.by_recorder = 4;
  traced.trace.add(dropped, ActivityBuilder::kWriter);
  traced.trace.add(dropped, ActivityBuilder::kWriter);
  const Json report = traced.report();
  CHECK(loss_of(report, "cupti_dropped_records") == 6);
  CHECK(loss_of(report, "activity_dropped") == 8);
}

TEST_CASE("a trace that ends before the records of its calls says so by what it has", "[unit]") {
  Traced traced;
  traced.up(100, {4'000'000, 4'001'000});
  traced.up(100, {4'002'000, 4'003'000});
  traced.cupti.call(ActivityDomain::kDriver, 1, kThreadId, {4'000'100, 4'000'900});
  traced.cupti.copy(100, {4'000'200, 4'000'300}, {.correlation = 1});
  const Json row = only_copy(traced.report(Ending::kKilled));
  CHECK(row.at("count") == 2);
  CHECK(row.at("joined_count") == 1);
  CHECK(row.at("joined_bytes") == 100);
}

TEST_CASE("the state of CUPTI and its reason are in the report", "[unit]") {
  TraceBuilder trace;
  ActivityBuilder cupti(trace);
  SECTION("off") {
    cupti.state(ActivityMode::kOff, 0, "the process has no libcupti");
    const Json state = report_of(trace).at("processes")[0].at("cupti");
    CHECK(state.at("state") == "off");
    CHECK(state.at("reason") == "the process has no libcupti");
    CHECK(state.at("version").is_null());
    CHECK(state.at("join").is_null());
  }
  SECTION("lost") {
    cupti.state(ActivityMode::kFull);
    cupti.state(ActivityMode::kLost, 0, "the program called cuptiFinalize");
    const Json state = report_of(trace).at("processes")[0].at("cupti");
    CHECK(state.at("state") == "lost");
    CHECK(state.at("mode") == "full");
    CHECK(state.at("version") == "130001");
  }
  SECTION("shared") {
    cupti.state(ActivityMode::kCopies, 130001, {}, 1);
    CHECK(report_of(trace).at("processes")[0].at("cupti").at("state") == "shared");
  }
  SECTION("a remark stays when the program joins, and goes with its mode") {
    cupti.state(ActivityMode::kOff, 0, "the process had not loaded libcupti");
    cupti.state(ActivityMode::kCopies, 130001, "since the program first used CUPTI");
    cupti.state(ActivityMode::kCopies, 130001, {}, 1);
    CHECK(report_of(trace).at("processes")[0].at("cupti").at("reason") ==
          "since the program first used CUPTI");
    cupti.state(ActivityMode::kLost, 0);
    CHECK(report_of(trace).at("processes")[0].at("cupti").at("reason").is_null());
  }
}

}  // namespace gpumemtrace::analyzer_activity_test
