// SPDX-License-Identifier: Apache-2.0
// A report with something in every section agrees with the published schema and adds up.
#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/source_file.hpp"

namespace gpumemtrace::analyzer_schema_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::int64_t kSigned = static_cast<std::int64_t>(kMiB);

void add_framework(TraceBuilder& trace) {
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, 8 * kSigned, 20 * kMiB);
  trace.block(0x200800000, 4 * kSigned, 20 * kMiB);
  trace.block(0x200000000, -8 * kSigned, 20 * kMiB);
  trace.allocate(0, 64 * kMiB, MemoryKind::kDevice, {.result = 2});
  trace.framework_oom(64 * kMiB);
}

void add_everything_else(TraceBuilder& trace) {
  trace.allocate(0x30000000, 3 * kMiB, MemoryKind::kStreamOrdered);
  PoolSample pool;
  pool.pool = 0x99;
  pool.device = 0;
  pool.reserved_current = 32 * kMiB;
  pool.reserved_high = 32 * kMiB;
  trace.add(pool);
  trace.allocate(0x40000000, 4 * kMiB, MemoryKind::kPinned);
  trace.allocate(0x50000000, 5 * kMiB, MemoryKind::kManaged);
  trace.allocate(0x9, 6 * kMiB, MemoryKind::kPhysical);
  trace.allocate(0, 900 * kMiB, MemoryKind::kStreamOrdered, {.result = 2});
  trace.copy(0x30000000, EndType::kDevice, 0x40000000, EndType::kHost, 100);
  Set set;
  set.destination = 0x30000000;
  set.bytes = 4096;
  trace.add_call(set, {});
  trace.free(0x66660000, MemoryKind::kDevice, {.result = 1});
  trace.sample(500 * kMiB, 70 * kMiB);
  trace.context_call(ContextOperation::kResetPrimary, 1);
  trace.allocate(0x70000000, 7 * kMiB);
  trace.add(Unwrapped{}, 1, "cuMemAllocMagic_v9");
}

}  // namespace

TEST_CASE("a report with something in every section agrees with the schema", "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint32_t pid : {10u, 11u}) {
    TraceBuilder trace(pid);
    trace.device(0, 0x1234, 80 * 1024 * kMiB);
    trace.text(TextKey::kExecutable, "/usr/bin/python3.12");
    trace.text(TextKey::kTorchVersion, "2.11.0");
    trace.module(0x1000, 0x2000, "/home/me/libmine.so");
    add_framework(trace);
    add_everything_else(trace);
    if (pid == 11) trace.mark(MarkKind::kStopped);
    trace.write(folder.path(), pid == 10 ? Ending::kExit : Ending::kKilled);
  }
  const Json report = analyze_json({folder.path()}, {});
  for (const char* section : {"traces", "processes", "devices", "usage", "peak", "composition",
                              "owners", "fragmentation", "oom", "losses"}) {
    INFO(section);
    CHECK_FALSE(report.at(section).empty());
  }
  const std::filesystem::path file = folder.path() / "report.json";
  std::ofstream(file) << report.dump(2);
  const std::string python = "python3 ";
  if (std::system((python + "-c 'import jsonschema' 2> /dev/null").c_str()) != 0) {
    WARN("python3 with jsonschema is missing: the schema was not checked");
    return;
  }
  const std::string checker = source_file("tests/schema/check_report.py ");
  CHECK(std::system((python + checker + file.string()).c_str()) == 0);
}

}  // namespace gpumemtrace::analyzer_schema_test
