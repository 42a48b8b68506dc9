// SPDX-License-Identifier: Apache-2.0
// Reads a file that claims to be a memory snapshot of PyTorch. Each id in the snapshot's rows must
// lead to an entry.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "analyzer/base/input_error.hpp"
#include "analyzer/snapshot/read_snapshot.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace gpumemtrace;
using namespace gpumemtrace::analyzer::snapshot;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_stack(const Snapshot& snapshot, StackId id) {
  require(id.value < snapshot.stacks.size());
  for (const std::uint32_t number : snapshot.stack(id)) {
    require(number != 0 && number < snapshot.frames.size());
    const Frame& frame = snapshot.frame({number});
    for (const TextId text : {frame.function, frame.file, frame.fx_node, frame.fx_trace}) {
      require(text.value < snapshot.texts.size());
    }
  }
}

void check_segments(const Snapshot& snapshot, Range range) {
  for (const Segment& segment : snapshot.segments_of(range)) {
    require(segment.pool.value < snapshot.pools.size());
    check_stack(snapshot, segment.stack);
    for (const Block& block : snapshot.blocks_of(segment)) check_stack(snapshot, block.stack);
  }
}

void check_events(const Snapshot& snapshot, Range range) {
  for (const Event& event : snapshot.events_of(range)) {
    require(event.pool.value < snapshot.pools.size());
    check_stack(snapshot, event.stack);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Packed files are left out: the code that unpacks them has bounds of its own.
  constexpr std::uint8_t kPickle = 0x80;
  if (size == 0 || data[0] != kPickle) return 0;
  static const tests::TemporaryFolder folder(tests::place_in_memory());
  const auto path = folder.write("snapshot.pickle", std::as_bytes(std::span(data, size)));
  try {
    const Snapshot snapshot = read_snapshot(path);
    check_segments(snapshot, snapshot.device_segments);
    check_segments(snapshot, snapshot.host_segments);
    for (const Range range : snapshot.device_traces) check_events(snapshot, range);
    for (const Range range : snapshot.host_traces) check_events(snapshot, range);
    for (const Annotation& annotation : snapshot.annotations) {
      require(annotation.name.value < snapshot.texts.size());
    }
    for (const Setting& setting : snapshot.settings) {
      require(setting.value.value < snapshot.texts.size());
    }
  } catch (const analyzer::InputError&) {
    return 0;
  }
  return 0;
}
