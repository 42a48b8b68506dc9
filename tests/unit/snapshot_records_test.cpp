// SPDX-License-Identifier: Apache-2.0
// Snapshots of PyTorch as traces: small histories whose truth is known.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/snapshot/open_trace.hpp"
#include "analyzer/snapshot/undo.hpp"
#include "analyzer/stacks/python_stacks.hpp"
#include "tests/catch.hpp"
#include "trace/reader.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::snapshot::snapshot_records_test {
namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kSegment = 0x7000'0000'0000;
constexpr std::uint64_t kSegmentBytes = 20 * kMib;

// A snapshot of one device, put together from its end: the segments that are left, then the events
// that led to them.
class SmallSnapshot {
 public:
  TextId text(std::string_view text) { return {snapshot_.texts.intern(text)}; }
  std::uint32_t frame(std::string_view function, std::string_view file, std::uint32_t line) {
    const Frame frame{text(function), text(file), line, {}, {}};
    return snapshot_.frames.intern({&frame, 1});
  }
  StackId stack(std::vector<std::uint32_t> frames) { return {snapshot_.stacks.intern(frames)}; }
  StackId stack(std::string_view file, std::uint32_t line) {
    return stack({frame("train", file, line)});
  }
  void segment(std::uint64_t address, std::uint64_t bytes, std::vector<Block> blocks,
               bool is_expandable = false, std::int32_t device = 0) {
    Segment segment;
    segment.device = device;
    segment.address = address;
    segment.bytes = bytes;
    segment.is_large = bytes > 2 * kMib;
    segment.is_expandable = is_expandable;
    segment.first_block = static_cast<std::uint32_t>(snapshot_.blocks.size());
    segment.blocks = static_cast<std::uint32_t>(blocks.size());
    snapshot_.blocks.insert(snapshot_.blocks.end(), blocks.begin(), blocks.end());
    snapshot_.segments.push_back(segment);
    ++snapshot_.device_segments.count;
  }
  void event(Action action, std::uint64_t address, std::uint64_t bytes, StackId stack = {}) {
    Event event;
    event.action = action;
    event.address = address;
    event.bytes = bytes;
    event.stack = stack;
    event.time_us = (1'700'000'000'000'000 + 10 * snapshot_.events.size()) & Event::kMostUs;
    snapshot_.events.push_back(event);
    if (snapshot_.device_traces.empty()) snapshot_.device_traces.emplace_back();
    ++snapshot_.device_traces.back().count;
  }
  void free(std::uint64_t address, std::uint64_t bytes) {
    event(Action::free_requested, address, bytes);
    event(Action::free_completed, address, bytes);
  }
  void begin_next_device() {
    snapshot_.device_traces.push_back({static_cast<std::uint32_t>(snapshot_.events.size()), 0});
  }
  void annotate(std::string_view stage, std::string_view name) {
    snapshot_.annotations.push_back({text(stage), text(name), 0, 1'700'000'000'000'005});
  }
  [[nodiscard]] Snapshot& snapshot() { return snapshot_; }

 private:
  Snapshot snapshot_;
};

Block in_use(std::uint64_t address, std::uint64_t bytes, std::uint64_t requested,
             StackId stack = {}) {
  return {address, bytes, requested, BlockState::allocated, stack};
}

// The records of a trace, by kind, in the order of its writers.
struct Records {
  explicit Records(const Snapshot& snapshot) : file(make_trace(snapshot), "test.pickle") {
    for (const trace::WriterStream& stream : file.writers()) {
      trace::WriterCursor cursor(file, stream);
      while (const trace::RecordHeader* record = cursor.next()) take(*record);
      CHECK(cursor.losses().corrupt_blocks == 0);
    }
  }

  void take(const trace::RecordHeader& record) {
    using trace::RecordKind;
    stacks.add(record);
    if (record.kind == RecordKind::kBlock) blocks.push_back(trace::as<trace::Block>(record));
    if (record.kind == RecordKind::kAllocation) {
      allocations.push_back(trace::as<trace::Allocation>(record));
    }
    if (record.kind == RecordKind::kMapping) take(trace::as<trace::Mapping>(record));
    if (record.kind == RecordKind::kFree) frees.push_back(trace::as<trace::Free>(record));
    if (record.kind == RecordKind::kBlockWait) {
      waits.push_back(trace::as<trace::BlockWait>(record));
    }
    if (record.kind == RecordKind::kFrameworkOom) {
      failures.push_back(trace::as<trace::FrameworkOom>(record));
    }
    if (record.kind == RecordKind::kAnnotation) {
      annotations.push_back(trace::as<trace::Annotation>(record));
    }
    if (record.kind == RecordKind::kText &&
        trace::as<trace::Text>(record).key == trace::TextKey::kNote) {
      notes.emplace_back(trace::tail_of(record));
    }
    if (record.kind == RecordKind::kSource) {
      source = trace::as<trace::Source>(record);
      misfit = trace::tail_of(record);
    }
  }

  void take(const trace::Mapping& mapping) {
    if (mapping.operation == trace::MappingOperation::kReserve) reservations.push_back(mapping);
  }

  [[nodiscard]] std::string place_of(trace::StackId stack) const {
    std::string text;
    for (const PythonFrame& frame : stacks.frames_of(stack)) {
      text += (text.empty() ? "" : ", ") + frame.function + " " + frame.file + ":" +
              std::to_string(frame.line);
    }
    return text;
  }

  trace::TraceFile file;
  PythonStacks stacks;
  std::vector<trace::Block> blocks;
  std::vector<trace::Allocation> allocations;
  std::vector<trace::Mapping> reservations;
  std::vector<trace::Free> frees;
  std::vector<trace::BlockWait> waits;
  std::vector<trace::FrameworkOom> failures;
  std::vector<trace::Annotation> annotations;
  std::vector<std::string> notes;
  trace::Source source;
  std::string misfit;
};

}  // namespace

TEST_CASE("blocks have the sizes that PyTorch's rules give them", "[unit]") {
  SmallSnapshot file;
  const StackId line = file.stack("/app/train.py", 300);
  // The third request leaves a rest of 512 KiB in the segment, which is too small to be a block.
  const std::uint64_t last = kSegment + 8 * kMib;
  file.segment(kSegment, kSegmentBytes, {in_use(last, 12 * kMib, 12 * kMib - 512 * 1024, line)});
  file.event(Action::segment_alloc, kSegment, kSegmentBytes, line);
  file.event(Action::alloc, kSegment, 3 * kMib - 100, line);
  file.event(Action::alloc, kSegment + 3 * kMib, 5 * kMib, line);
  file.event(Action::alloc, last, 12 * kMib - 512 * 1024, line);
  file.free(kSegment, 3 * kMib - 100);
  file.free(kSegment + 3 * kMib, 5 * kMib);
  const Records records(file.snapshot());
  REQUIRE(records.blocks.size() == 5);
  CHECK(records.blocks[0].bytes == 3 * kMib);
  CHECK(records.blocks[0].requested == 3 * kMib - 100);
  CHECK(records.blocks[2].bytes == 12 * kMib);
  CHECK(records.blocks[2].allocated == 20 * kMib);
  CHECK(records.blocks[4].bytes == -5 * static_cast<std::int64_t>(kMib));
  CHECK(records.blocks[4].allocated == 12 * kMib);
  CHECK(records.blocks[4].reserved_bytes == kSegmentBytes);
  CHECK(records.place_of(records.blocks[0].stack) == "train /app/train.py:300");
  CHECK(records.allocations.at(0).bytes == kSegmentBytes);
  CHECK(records.source.events == 8);
  CHECK(records.source.events_left_out == 0);
  CHECK(records.source.earlier_reserved_bytes == 0);
  CHECK(records.misfit.empty());
}

TEST_CASE("memory from before the history is there at the first event", "[unit]") {
  SmallSnapshot file;
  const StackId line = file.stack("/app/model.py", 7);
  file.segment(kSegment, kSegmentBytes,
               {in_use(kSegment, 4 * kMib, 4 * kMib, line),
                in_use(kSegment + 6 * kMib, 3 * kMib, 3 * kMib, line)});
  file.free(kSegment + 4 * kMib, 2 * kMib);
  file.event(Action::alloc, kSegment + 6 * kMib, 3 * kMib, line);
  const Records records(file.snapshot());
  REQUIRE(records.blocks.size() == 4);
  CHECK(records.blocks[1].allocated == 6 * kMib);
  CHECK((records.blocks[1].record.flags & trace::kFlagEarlier) != 0);
  CHECK((records.blocks[3].record.flags & trace::kFlagEarlier) == 0);
  CHECK((records.allocations.at(0).call.record.flags & trace::kFlagEarlier) != 0);
  CHECK(records.place_of(records.blocks[0].stack) == "train /app/model.py:7");
  CHECK(records.place_of(records.blocks[1].stack) == "allocated before the history :0");
  CHECK(records.source.earlier_blocks == 2);
  CHECK(records.source.earlier_bytes == 6 * kMib);
  CHECK(records.source.earlier_reserved_bytes == kSegmentBytes);
}

TEST_CASE("a block that is gone ends where the next request came to lie", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  const std::uint64_t next = kSegment + 4 * kMib + 512 * 1024;
  file.event(Action::alloc, next, 2 * kMib);
  file.free(kSegment, 4 * kMib);
  file.free(next, 2 * kMib);
  const Records records(file.snapshot());
  REQUIRE(records.blocks.size() == 4);
  CHECK(records.blocks[0].bytes == next - kSegment);
  CHECK(records.blocks[0].requested == 4 * kMib);
  CHECK(records.notes.empty());
}

TEST_CASE("the size of a block that is gone has a bound if nothing shows it", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  // 3 MiB lie between the first request and the second block, and up to 1 MiB of them may belong to
  // the first block. The 512 KiB behind the second request belong to its block.
  const std::uint64_t second = kSegment + 7 * kMib;
  file.free(kSegment, 4 * kMib);
  file.free(second, 12 * kMib + 512 * 1024);
  file.event(Action::alloc, kSegment + 2 * kMib, kMib);  // after the first block was freed
  file.free(kSegment + 2 * kMib, kMib);
  const Records records(file.snapshot());
  REQUIRE(records.blocks.size() == 6);
  CHECK(records.blocks[0].bytes == 4 * kMib);
  CHECK(records.blocks[1].bytes == 13 * kMib);
  REQUIRE(records.notes.size() == 1);
  CHECK(records.notes[0] ==
        "Blocks from before the history that were freed in it (1) may be larger than shown, by at "
        "most 1048576 bytes in all.");
}

TEST_CASE("what lies before an event that does not fit is not claimed", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {in_use(kSegment, 4 * kMib, 4 * kMib)});
  std::string reason;
  SECTION("a block of another size") {
    file.event(Action::alloc, kSegment, 5 * kMib);
    reason = "event 1 (alloc of 5242880 bytes at 0x700000000000): the block there has another size";
  }
  SECTION("a free of memory that was in use") {
    file.event(Action::free_completed, kSegment + kMib, kMib);
    reason = "event 1 (free_completed of 1048576 bytes at 0x700000100000): the memory was in use";
  }
  SECTION("a segment that is younger than its block") {
    file.event(Action::segment_alloc, kSegment, kSegmentBytes);
    reason =
        "event 1 (segment_alloc of 20971520 bytes at 0x700000000000): a block was older than its "
        "segment";
  }
  file.event(Action::alloc, kSegment + 4 * kMib, 2 * kMib);
  file.free(kSegment + 4 * kMib, 2 * kMib);
  const Records records(file.snapshot());
  CHECK(records.source.events == 3);
  CHECK(records.source.events_left_out == 1);
  CHECK(records.misfit == "device 0, " + reason);
  REQUIRE(records.blocks.size() == 3);
  CHECK(records.blocks[1].allocated == 6 * kMib);
}

TEST_CASE("a block whose free waits for a stream is no longer allocated", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  file.event(Action::alloc, kSegment, 2 * kMib);
  file.event(Action::free_requested, kSegment, 2 * kMib);
  file.event(Action::alloc, kSegment + 2 * kMib, 2 * kMib);
  file.event(Action::free_completed, kSegment, 2 * kMib);
  file.free(kSegment + 2 * kMib, 2 * kMib);
  const Records records(file.snapshot());
  REQUIRE(records.blocks.size() == 4);
  CHECK(records.blocks[1].allocated == 0);
  CHECK(records.blocks[2].allocated == 2 * kMib);
  REQUIRE(records.waits.size() == 2);
  CHECK(records.waits[0].address == kSegment);
  CHECK(records.waits[1].address == 0);
  CHECK(records.waits[1].event == records.waits[0].event);
}

TEST_CASE("a free has the stack of its request", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  file.event(Action::alloc, kSegment, 2 * kMib, file.stack("/app/train.py", 7));
  file.event(Action::free_requested, kSegment, 2 * kMib, file.stack("/app/train.py", 9));
  file.event(Action::free_completed, kSegment, 2 * kMib);
  const Records records(file.snapshot());
  REQUIRE(records.blocks.size() == 2);
  CHECK(records.place_of(records.blocks[1].stack) == "train /app/train.py:9");
}

TEST_CASE("a stack has its frames of C++ if none is of Python", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  const std::uint32_t malloc = file.frame("c10::malloc()", "??", 0);
  const std::uint32_t ours = file.frame("infer(int)", "/app/infer.cpp", 31);
  const std::uint32_t python = file.frame("train", "/app/train.py", 7);
  const std::uint32_t script = file.frame("main", "/usr/local/bin/torchrun", 8);
  const std::uint32_t words = file.frame("the teacher", "<user_metadata>", 0);
  file.event(Action::alloc, kSegment, 2 * kMib, file.stack({malloc, ours, words}));
  file.event(Action::alloc, kSegment + 2 * kMib, 2 * kMib,
             file.stack({file.frame("c10::Type", "Type.cpp", 0), ours, python, script, words}));
  file.free(kSegment, 2 * kMib);
  file.free(kSegment + 2 * kMib, 2 * kMib);
  const Records records(file.snapshot());
  CHECK(records.place_of(records.blocks.at(0).stack) ==
        "c10::malloc() :0, infer(int) /app/infer.cpp:31, the teacher <user_metadata>:0");
  CHECK(records.place_of(records.blocks.at(1).stack) ==
        "train /app/train.py:7, main /usr/local/bin/torchrun:8, the teacher <user_metadata>:0");
  REQUIRE(records.notes.size() == 1);
  CHECK(records.notes[0] == "The file has what is not shown: 1 frame.native.");
}

TEST_CASE("pages of an expandable segment come and go", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {in_use(kSegment, 4 * kMib, 4 * kMib)}, true);
  file.event(Action::segment_map, kSegment, kSegmentBytes);
  file.event(Action::alloc, kSegment, 4 * kMib);
  file.event(Action::segment_map, kSegment + kSegmentBytes, 2 * kSegmentBytes);
  file.event(Action::segment_unmap, kSegment + kSegmentBytes, 2 * kSegmentBytes);
  file.event(Action::alloc, kSegment + 4 * kMib, kMib);
  file.free(kSegment + 4 * kMib, kMib);
  const Records records(file.snapshot());
  CHECK(records.misfit.empty());
  CHECK(records.allocations.size() == 3);  // one allocation for each page
  CHECK(records.frees.size() == 2);
  REQUIRE(records.blocks.size() == 3);
  CHECK(records.blocks[1].reserved_bytes == kSegmentBytes);
}

TEST_CASE("pages of small blocks that go at once belong to no space of large ones", "[unit]") {
  SmallSnapshot file;
  const std::uint64_t large = kSegment + 1024 * kMib;
  file.event(Action::segment_unmap, large, 3 * kSegmentBytes);
  file.event(Action::segment_unmap, kSegment, 4 * kMib);
  const Records records(file.snapshot());
  REQUIRE(records.reservations.size() == 2);
  CHECK(records.reservations[0].address == kSegment);
  CHECK(records.reservations[1].address == large);
  CHECK(records.allocations.size() == 2 + 3);  // one allocation for each page
}

TEST_CASE("a request that failed is told with what PyTorch held", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {in_use(kSegment, kSegmentBytes, kSegmentBytes)});
  file.event(Action::oom, 0, 64 * kMib, file.stack("/app/train.py", 9));
  const Records records(file.snapshot());
  REQUIRE(records.failures.size() == 1);
  CHECK(records.failures[0].requested == 64 * kMib);
  CHECK(records.failures[0].allocated == kSegmentBytes);
  CHECK(records.place_of(records.failures[0].stack) == "train /app/train.py:9");
}

TEST_CASE("each device has its own history", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  file.segment(2 * kSegment, kSegmentBytes, {in_use(2 * kSegment, 4 * kMib, 4 * kMib)}, false, 1);
  file.event(Action::segment_alloc, kSegment, kSegmentBytes);
  file.begin_next_device();
  file.event(Action::alloc, 2 * kSegment, 4 * kMib);
  const Records records(file.snapshot());
  CHECK(records.source.devices == 2);
  CHECK(records.misfit.empty());
  REQUIRE(records.blocks.size() == 1);
  CHECK(records.blocks[0].device == 1);
  CHECK(records.blocks[0].allocated == 4 * kMib);
}

TEST_CASE("a snapshot without a history shows what was live", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {in_use(kSegment, 4 * kMib, 4 * kMib)});
  const Records records(file.snapshot());
  CHECK(records.source.events == 0);
  CHECK(records.source.devices == 0);
  REQUIRE(records.blocks.size() == 1);
  CHECK(records.blocks[0].bytes == static_cast<std::int64_t>(4 * kMib));
}

TEST_CASE("annotations are steps and ranges", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {});
  file.annotate("START", "ProfilerStep#12");
  file.annotate("START", "Optimizer.step#Adam.step");
  file.annotate("END", "Optimizer.step#Adam.step");
  file.annotate("END", "ProfilerStep#12");
  const Records records(file.snapshot());
  REQUIRE(records.annotations.size() == 3);
  CHECK(records.annotations[0].operation == trace::AnnotationOperation::kStep);
  CHECK(records.annotations[0].value == 12);
  CHECK(records.annotations[1].operation == trace::AnnotationOperation::kStart);
  CHECK(records.annotations[2].operation == trace::AnnotationOperation::kEnd);
  CHECK(records.annotations[2].value == records.annotations[1].value);
}

TEST_CASE("a device that PyTorch cannot have is an error", "[unit]") {
  SmallSnapshot file;
  file.segment(kSegment, kSegmentBytes, {}, false, 4000);
  CHECK_THROWS(make_trace(file.snapshot()));
}

}  // namespace gpumemtrace::analyzer::snapshot::snapshot_records_test
