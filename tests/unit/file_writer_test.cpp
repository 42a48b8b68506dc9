// SPDX-License-Identifier: Apache-2.0
#include "trace/file_writer.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::trace::file_writer_test {
namespace {

OwnDescriptor memory_file() { return OwnDescriptor(memfd_create("trace", MFD_CLOEXEC)); }

std::map<std::uint32_t, std::vector<std::string>> marks_in(const TraceFile& file) {
  std::map<std::uint32_t, std::vector<std::string>> marks;
  for (const WriterStream& stream : file.writers()) {
    WriterCursor cursor(file, stream);
    while (const RecordHeader* record = cursor.next()) {
      marks[stream.writer].emplace_back(tail_of(*record));
    }
    CHECK(cursor.losses().corrupt_blocks == 0);
  }
  return marks;
}

}  // namespace

TEST_CASE("records that are written to a file in memory are read in their order", "[unit]") {
  const Codec codec = GENERATE(Codec::kNone, Codec::kZstd);
  constexpr std::size_t kSmallImage = 4096;  // so small that the records fill several chunks
  FileHeader header;
  header.process_id = 7;
  FileWriter writer(memory_file(), header, codec);
  std::map<std::uint32_t, std::vector<std::string>> written;
  for (const std::uint32_t id : {1u, 5u}) {
    StreamWriter stream(writer, id, kSmallImage);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      Mark mark;
      mark.record.time = i;
      written[id].push_back(std::to_string(i * id));
      stream.add(mark, written[id].back());
    }
    stream.finish();
  }
  const TraceFile file(writer.take_file(), "a name for people");
  CHECK(file.path() == "a name for people");
  CHECK(file.header().process_id == 7);
  CHECK_FALSE(file.has_ring());
  CHECK(file.writers().front().pieces.size() > 1);
  CHECK(marks_in(file) == written);
}

TEST_CASE("a file in memory that is no trace is refused by its name", "[unit]") {
  const std::string error =
      tests::error_of<TraceError>([] { return TraceFile(memory_file(), "NAME").file_bytes(); });
  CHECK(error.find("NAME is empty") != std::string::npos);
}

TEST_CASE("a trace that has no room is not silently cut", "[unit]") {
  CHECK_THROWS_AS(FileWriter(OwnDescriptor(), FileHeader(), Codec::kNone), std::system_error);
}

}  // namespace gpumemtrace::trace::file_writer_test
