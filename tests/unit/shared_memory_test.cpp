// SPDX-License-Identifier: Apache-2.0
// Memory of one process that another process opened by an IPC handle: the report's shared_memory[].
#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/support/packed_trace.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::shared_memory_test {

using namespace gpumemtrace::tests;
using trace::ImportOperation;

namespace {

constexpr std::uint64_t kAddress = 0x10000000;
constexpr std::uint64_t kHandle = 0x5eed5eed5eed5eed;
constexpr std::uint64_t kOther = 0x0123456789abcdef;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr const char* kNobody =
    "No other trace of this machine has the handle: its process was not recorded, or by an earlier "
    "recorder, or the part of its trace with this memory was not kept.";

TraceBuilder process_on(std::uint32_t id, const std::string& machine) {
  TraceBuilder trace(id);
  trace.text(trace::TextKey::kBootId, machine);
  trace.text(trace::TextKey::kHost, machine);
  trace.device(0, 77, std::uint64_t{8} << 30);
  return trace;
}

void import(TraceBuilder& trace, ImportOperation operation, std::uint64_t address,
            std::uint64_t handle, std::uint64_t bytes = 0) {
  trace::Import call;
  call.operation = operation;
  call.address = address;
  call.handle = handle;
  call.bytes = bytes;
  trace.add_call(call, {});
}

// Two processes of a machine, which the report numbers in the order of these members.
struct Pair {
  TraceBuilder exporter = process_on(100, "one");
  TraceBuilder importer = process_on(101, "one");

  Pair() {
    exporter.allocate(kAddress, 4 * kMiB);
    import(exporter, ImportOperation::kIpcExport, kAddress, kHandle);
  }
  void open(std::uint64_t at, std::uint64_t handle = kHandle) {
    importer.wait_until(TraceBuilder::kFirstTick + at);
    import(importer, ImportOperation::kIpcOpen, kAddress, handle, 4 * kMiB);
  }
  void close(std::uint64_t at) {
    importer.wait_until(TraceBuilder::kFirstTick + at);
    import(importer, ImportOperation::kIpcClose, kAddress, 0);
  }
  void free(std::uint64_t at) {
    exporter.wait_until(TraceBuilder::kFirstTick + at);
    exporter.free(kAddress);
  }
  Json rows() {
    const TemporaryFolder folder;
    const Json report =
        analyze_json({exporter.write(folder.path()), importer.write(folder.path())});
    keep_report(report);
    return report.at("shared_memory");
  }
  Json row() {
    const Json list = rows();
    REQUIRE(list.size() == 1);
    return list[0];
  }
};

}  // namespace

TEST_CASE("opened memory is that of the process that handed its handle out", "[unit]") {
  Pair pair;
  pair.open(kSecond);
  const Json row = pair.row();
  CHECK(row.at("process") == "p2");
  CHECK(row.at("exporter") == "p1");
  CHECK(row.at("exporter_reason").is_null());
  CHECK(row.at("exporter_device") == "d0");
  CHECK(row.at("count") == 1);
  CHECK(row.at("bytes") == 4 * kMiB);
  CHECK(row.at("live_bytes_at_end") == 4 * kMiB);
  CHECK(row.at("freed_while_open_bytes") == 0);
}

TEST_CASE("memory that its exporter frees while it is open is told, with the time", "[unit]") {
  Pair pair;
  pair.open(kSecond);
  pair.free(2 * kSecond);
  SECTION("until it was closed") {
    pair.close(5 * kSecond);
    const Json row = pair.row();
    CHECK(row.at("freed_while_open_bytes") == 4 * kMiB);
    CHECK(row.at("ended_while_open_bytes") == 0);
    CHECK(row.at("kept_after_ns") == 3 * kSecond);
    CHECK(row.at("live_bytes_at_end") == 0);
  }
  SECTION("until the process ended") {
    pair.importer.wait_until(TraceBuilder::kFirstTick + 4 * kSecond);
    CHECK(pair.row().at("freed_while_open_bytes") == 4 * kMiB);
  }
}

TEST_CASE("memory that was closed before it was freed is not left open", "[unit]") {
  Pair pair;
  pair.open(kSecond);
  pair.close(2 * kSecond);
  SECTION("by long") { pair.free(3 * kSecond); }
  SECTION("at the same moment, as far as two clocks tell") { pair.free(2 * kSecond - 10'000); }
  const Json row = pair.row();
  CHECK(row.at("freed_while_open_bytes") == 0);
  CHECK(row.at("kept_after_ns").is_null());
}

TEST_CASE("memory outlives the process that exported it", "[unit]") {
  Pair pair;
  pair.exporter.wait_until(TraceBuilder::kFirstTick + 2 * kSecond);
  pair.open(kSecond);
  pair.close(9 * kSecond);
  const Json row = pair.row();
  CHECK(row.at("ended_while_open_bytes") == 4 * kMiB);
  CHECK(row.at("freed_while_open_bytes") == 0);
  CHECK(row.at("freed_at").is_null());
}

TEST_CASE("memory that was opened twice is closed by the second call", "[unit]") {
  Pair pair;
  pair.open(kSecond);
  pair.open(kSecond);
  pair.close(2 * kSecond);
  SECTION("one call") { CHECK(pair.row().at("live_count_at_end") == 1); }
  SECTION("two calls") {
    pair.close(3 * kSecond);
    CHECK(pair.row().at("live_count_at_end") == 0);
  }
}

TEST_CASE("an address that is allocated again has another handle", "[unit]") {
  Pair pair;
  pair.free(kSecond);
  pair.exporter.allocate(kAddress, 4 * kMiB);
  import(pair.exporter, ImportOperation::kIpcExport, kAddress, kOther);
  pair.exporter.wait_until(TraceBuilder::kFirstTick + 9 * kSecond);
  pair.open(2 * kSecond, kOther);
  pair.close(3 * kSecond);
  CHECK(pair.row().at("kept_after_ns").is_null());
}

TEST_CASE("memory whose exporter is not known has the reason", "[unit]") {
  Pair pair;
  SECTION("no trace has the handle") {
    pair.open(kSecond, kOther);
    CHECK(pair.row().at("exporter_reason") == kNobody);
  }
  SECTION("it was handed out on another machine") {
    pair.importer = process_on(101, "two");
    pair.open(kSecond);
    CHECK(pair.row().at("exporter_reason") == kNobody);
  }
  SECTION("the recorder did not note it") {
    pair.open(kSecond, 0);
    CHECK(pair.row().at("exporter_reason") ==
          "The recorder of this trace did not note the handle.");
  }
  SECTION("it came through a descriptor, or with a pool") {
    pair.importer.map(trace::MappingOperation::kImport, 0, 0, 0x21);
    import(pair.importer, ImportOperation::kPoolImportPointer, kAddress, 0x500, kMiB);
    const Json rows = pair.rows();
    REQUIRE(rows.size() == 2);
    for (const Json& row : rows) {
      CHECK(row.at("exporter").is_null());
      CHECK(row.at("exporter_reason").get<std::string>().find("does not tell") !=
            std::string::npos);
    }
  }
}

TEST_CASE("the largest shared memory of a process has rows, and one has the rest", "[unit]") {
  Pair pair;
  pair.importer.module(0x100000, 0x200000, "/home/me/libconsumer.so");
  for (std::uint64_t i = 0; i < 70; ++i) {
    trace::Import call;
    call.operation = ImportOperation::kIpcOpen;
    call.address = kAddress + i * 64 * kMiB;
    call.handle = kOther + i;
    call.bytes = (i + 1) * kMiB;
    pair.importer.add_call(call, {.caller = 0x100000 + i * 16});
  }
  const Json rows = pair.rows();
  REQUIRE(rows.size() == 65);
  CHECK(rows[0].at("bytes") == 70 * kMiB);
  CHECK(rows[64].at("count") == 6);
  CHECK(rows[64].at("bytes") == 21 * kMiB);
  CHECK(rows[64].at("exporter_reason") == "This row has the sums of all smaller ones.");
}

TEST_CASE("a checkpoint keeps one export of live memory, however many there were", "[unit]") {
  const TemporaryFolder folder;
  std::uintmax_t bytes = 0;
  for (const int exports : {1, 20'000}) {
    Pair pair;
    PackedTrace compacted(folder.path() / ("exports" + std::to_string(exports) + ".gmt"));
    for (int i = 0; i < exports; ++i) {
      import(pair.exporter, ImportOperation::kIpcExport, kAddress, kHandle);
      if (i % 100 != 0) continue;
      compacted.add(pair.exporter);
      compacted.pack();
    }
    pair.exporter.allocate(kOther, kMiB);
    import(pair.exporter, ImportOperation::kIpcExport, kOther, kOther);
    pair.exporter.free(kOther);
    compacted.add(pair.exporter);
    compacted.pack();
    REQUIRE(compacted.compact(0, pair.exporter.now() + 1) == preload::CheckpointResult::kDone);
    if (bytes == 0) bytes = std::filesystem::file_size(compacted.path());
    CHECK(std::filesystem::file_size(compacted.path()) < bytes + 200);
    TraceBuilder importer = process_on(101, "one");
    import(importer, ImportOperation::kIpcOpen, kAddress, kHandle, 4 * kMiB);
    import(importer, ImportOperation::kIpcOpen, kOther, kOther, kMiB);
    const Json rows =
        analyze_json({compacted.path(), importer.write(folder.path())}).at("shared_memory");
    CHECK(row_where(rows, {{"exporter", "p1"}}).at("bytes") == 4 * kMiB);
    CHECK(row_where(rows, {{"exporter", nullptr}}).at("bytes") == kMiB);
  }
}

}  // namespace gpumemtrace::shared_memory_test
