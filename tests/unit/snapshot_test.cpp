// SPDX-License-Identifier: Apache-2.0
// Reads the snapshots that tests/data/snapshots/make_snapshots.py made.
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "analyzer/snapshot/read_snapshot.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::tests::snapshot_test {
namespace {

using namespace analyzer::snapshot;

const std::string kFolder = tests::source_file("tests/data/snapshots/");

// A stack's frames as function:line, the innermost first; "-" for no stack.
std::string stack_text(const Snapshot& snapshot, StackId id) {
  std::string text;
  for (const std::uint32_t number : snapshot.stack(id)) {
    const Frame& frame = snapshot.frame({number});
    text += (text.empty() ? "" : " < ") + std::string(snapshot.text(frame.function)) + ":" +
            std::to_string(frame.line);
    if (frame.fx_node != TextId{}) {
      text += "(" + std::string(snapshot.text(frame.fx_node)) + ", " +
              std::string(snapshot.text(frame.fx_trace)) + ")";
    }
  }
  return text.empty() ? "-" : text;
}

std::string pool_text(const Snapshot& snapshot, PoolId id) {
  const std::optional<Pool> pool = snapshot.pool(id);
  return pool ? std::to_string(pool->first) + "," + std::to_string(pool->second) : "none";
}

void write_segments(std::ostream& out, const Snapshot& snapshot, Range range) {
  for (const Segment& segment : snapshot.segments_of(range)) {
    out << "segment device " << segment.device << std::hex << " " << segment.address << std::dec
        << " " << segment.bytes << " stream " << segment.stream
        << (segment.is_large ? " large" : "") << (segment.is_expandable ? " expandable" : "")
        << " pool " << pool_text(snapshot, segment.pool) << " "
        << stack_text(snapshot, segment.stack) << "\n";
    for (const Block& block : snapshot.blocks_of(segment)) {
      out << "  block " << std::hex << block.address << std::dec << " " << block.bytes << " asked "
          << block.requested_bytes.value_or(0) << " state " << static_cast<int>(block.state) << " "
          << stack_text(snapshot, block.stack) << "\n";
    }
  }
}

void write_events(std::ostream& out, const Snapshot& snapshot, Range range) {
  out << "trace\n";
  for (const Event& event : snapshot.events_of(range)) {
    out << "  " << event.time_us % 1000 << " action " << static_cast<int>(event.action) << std::hex
        << " " << event.address << std::dec << " " << event.bytes << " pool "
        << pool_text(snapshot, event.pool) << " " << stack_text(snapshot, event.stack) << "\n";
  }
}

std::string describe(const Snapshot& snapshot) {
  std::ostringstream out;
  write_segments(out, snapshot, snapshot.device_segments);
  for (const Range range : snapshot.device_traces) write_events(out, snapshot, range);
  out << "pinned\n";
  write_segments(out, snapshot, snapshot.host_segments);
  for (const Range range : snapshot.host_traces) write_events(out, snapshot, range);
  for (const Annotation& annotation : snapshot.annotations) {
    out << "annotation " << snapshot.text(annotation.stage) << " " << snapshot.text(annotation.name)
        << " " << annotation.device << " " << annotation.time_us % 1000 << "\n";
  }
  for (const Setting& setting : snapshot.settings) {
    out << snapshot.text(setting.name) << "=" << snapshot.text(setting.value) << "\n";
  }
  for (const auto& [name, count] : snapshot.unknown_keys) out << name << " x" << count << "\n";
  for (const auto& [name, count] : snapshot.unknown_actions) out << name << " x" << count << "\n";
  return out.str();
}

constexpr const char* kEveryKey =
    R"(segment device 0 7f0000000000 2097152 stream 0 pool 0,0 at::empty_cuda:0 < forward:40 < main:12
  block 7f0000000000 1024 asked 1000 state 0 at::empty_cuda:0 < forward:40 < main:12
  block 7f0000000400 512 asked 512 state 1 call:7(relu_1, model.py:41 in forward) < main:12
  block 7f0000000600 2095616 asked 0 state 2 -
segment device 1 800000000000 20971520 stream 94217 large expandable pool 3,1 -
trace
  1 action 3 7f0000000000 2097152 pool 0,0 at::empty_cuda:0 < forward:40 < main:12
  2 action 0 7f0000000000 1000 pool 0,0 at::empty_cuda:0 < forward:40 < main:12 < weights:0
  3 action 0 7f0000000400 512 pool 3,1 call:7(relu_1, model.py:41 in forward) < main:12 < 0/1:0
  4 action 1 7f0000000400 512 pool 0,0 main:12
  5 action 2 7f0000000600 100 pool 0,0 -
  6 action 5 800000000000 20971520 pool 0,0 -
  7 action 6 810000000000 2097152 pool 0,0 -
  8 action 8 100000 8589934592 pool 0,0 at::empty_cuda:0 < forward:40 < main:12
  9 action 9 7f0000000000 0 pool 0,0 packed:0
  10 action 10 7f0000000000 0 pool 0,0 -
  11 action 4 810000000000 2097152 pool 0,0 -
  12 action 7 0 0 pool 0,0 -
trace
pinned
segment device 0 830000000000 4096 stream 0 pool none -
  block 830000000000 4096 asked 4000 state 0 at::empty_cuda:0 < forward:40 < main:12
trace
  3 action 0 830000000000 4000 pool 0,0 at::empty_cuda:0 < forward:40 < main:12
annotation START ProfilerStep#1 0 2
annotation END ProfilerStep#1 0 11
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
max_split_size=-1
garbage_collection_threshold=0.8
expandable_segments=True
roundup_power2_divisions.1=0
roundup_power2_divisions.2=4
trace_alloc_overflowed=False
trace_alloc_max_entries=100000
event.forward_frames x1
frame.fx_node_op x1
snapshot.comment x1
compact x1
)";

}  // namespace

TEST_CASE("a snapshot has every key, whoever wrote it", "[unit]") {
  const std::string file = GENERATE("python2.pickle", "python3.pickle", "python4.pickle",
                                    "python5.pickle", "cpp.pickle");
  const Snapshot snapshot = read_snapshot(kFolder + file);
  CHECK(describe(snapshot) == kEveryKey);
  CHECK(snapshot.ring_overflowed == false);
  CHECK(snapshot.ring_entries == 100000);
  CHECK(snapshot.has_host_memory);
  CHECK(snapshot.stacks.size() == 1 + 6);  // each stack once
  CHECK(snapshot.frames.size() == 1 + 7);
}

TEST_CASE("what an older PyTorch did not write is unknown", "[unit]") {
  // Each file lacks what the pull request with its number added to PyTorch; see make_snapshots.py.
  const int pull_request = GENERATE(130964, 152707, 165490, 177717, 179276, 182407);
  const Snapshot snapshot =
      read_snapshot(kFolder + "before_" + std::to_string(pull_request) + ".pickle");
  REQUIRE(snapshot.device_traces.size() == 2);
  REQUIRE(snapshot.events_of(snapshot.device_traces[0]).size() == 12);
  const Event& weights = snapshot.events[1];
  CHECK_FALSE(snapshot.has_host_memory);
  CHECK(snapshot.ring_overflowed.has_value() == (pull_request > 179276));
  CHECK(snapshot.pool(weights.pool).has_value() == (pull_request > 177717));
  CHECK(snapshot.annotations.empty() == (pull_request <= 130964));
  const std::string words = pull_request > 165490 ? " < weights:0" : "";
  CHECK(stack_text(snapshot, weights.stack) == "at::empty_cuda:0 < forward:40 < main:12" + words);
  const std::string context = pull_request > 152707 ? " < 0/1:0" : "";
  CHECK(stack_text(snapshot, snapshot.events[2].stack).ends_with("main:12" + context));
}

TEST_CASE("a snapshot may be packed", "[unit]") {
  std::ifstream file(kFolder + "python4.pickle", std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const TemporaryFolder folder;
  const std::string packed = (folder.path() / "rank0.pickle.gz").string();
  gzFile out = gzopen(packed.c_str(), "wb");
  REQUIRE(gzwrite(out, content.data(), static_cast<unsigned>(content.size())) > 0);
  REQUIRE(gzclose(out) == Z_OK);
  CHECK(describe(read_snapshot(packed)) == kEveryKey);
}

}  // namespace gpumemtrace::tests::snapshot_test
