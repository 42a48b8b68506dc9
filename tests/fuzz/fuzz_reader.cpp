// SPDX-License-Identifier: Apache-2.0
// Opens any input as a trace and reads it to the end.
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "tests/fuzz/checks.hpp"
#include "tests/fuzz/trace_input.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/reader.hpp"

namespace {

using namespace gpumemtrace;

bool needs_ring(const trace::TraceFile& file) {
  for (const trace::WriterStream& stream : file.writers()) {
    for (const trace::ChunkPiece& piece : stream.pieces) {
      if (piece.in_ring) return true;
    }
  }
  return false;
}

void read_all(const trace::TraceFile& file, std::size_t input_bytes) {
  tests::require(!(file.ring_is_spent() && needs_ring(file)), "a ring that is read is not spent");
  for (const trace::WriterStream& stream : file.writers()) {
    tests::require(!stream.pieces.empty(), "a writer has a piece");
    trace::WriterCursor cursor(file, stream);
    std::size_t records = 0;
    while (const trace::RecordHeader* record = cursor.next()) {
      tests::check_record(*record);
      ++records;
    }
    tests::require(cursor.next() == nullptr, "the end stays the end");
    // A record has at least 16 bytes, and a piece at most kMaxChunkBytes.
    tests::require(records <= stream.pieces.size() * trace::kMaxChunkBytes / 16,
                   "pieces hold a bounded number of records");
    tests::require(stream.pieces.size() <= input_bytes, "pieces come from bytes of the input");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tests::TemporaryFolder folder(tests::place_in_memory());
  const std::filesystem::path path = folder.path() / "trace.gmt";
  tests::write_input(tests::expand_input(std::as_bytes(std::span(data, size))), path);
  try {
    const trace::TraceFile file(trace::find_traces({folder.path()}).front());
    read_all(file, size);
  } catch (const trace::TraceError&) {
    // The user gets this error as a sentence; any other exception is a finding.
  }
  return 0;
}
