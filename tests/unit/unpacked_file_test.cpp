// SPDX-License-Identifier: Apache-2.0
// Traces that gzip or zstd packed as a whole read as those that were not packed.
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/support/raw_trace.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/reader.hpp"
#include "trace/source_files.hpp"

namespace gpumemtrace::trace::unpacked_file_test {
namespace {

namespace fs = std::filesystem;
using tests::RawTrace;
using tests::RecordImage;
using tests::TemporaryFolder;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// Packs a file and removes the unpacked one, as gzip does.
fs::path packed_by_gzip(const fs::path& path) {
  fs::path packed = path;
  packed += ".gz";
  const std::string content = content_of(path);
  gzFile file = gzopen(packed.c_str(), "wb");
  REQUIRE(gzwrite(file, content.data(), static_cast<unsigned>(content.size())) ==
          static_cast<int>(content.size()));
  REQUIRE(gzclose(file) == Z_OK);
  fs::remove(path);
  return packed;
}

fs::path packed_by_zstd(const fs::path& path) {
  fs::path packed = path;
  packed += ".zst";
  const std::string content = content_of(path);
  std::string out(ZSTD_compressBound(content.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 3));
  write(packed, out);
  fs::remove(path);
  return packed;
}

// A trace with two records in its file and two in the ring of a process that died.
RawTrace trace_with_ring() {
  const auto marks = [](std::uint64_t first_time) {
    RecordImage image;
    for (std::uint64_t time = first_time; time < first_time + 2; ++time) {
      Mark mark;
      mark.record.time = time;
      image.add(mark);
    }
    return image;
  };
  RawTrace trace;
  trace.add_schema(tests::own_schema_bytes());
  trace.add_records(1, 0, 0, marks(1).bytes());
  trace.begin_ring();
  trace.add_chunk(1, 1, marks(3).bytes());
  return trace;
}

struct Reading {
  std::vector<std::uint64_t> times;
  std::uint64_t truncated_tail = 0;
};

Reading read(const fs::path& path) {
  const TraceFile file(path);
  Reading reading;
  reading.truncated_tail = file.losses().truncated_tail;
  for (const WriterStream& stream : file.writers()) {
    WriterCursor cursor(file, stream);
    while (const RecordHeader* record = cursor.next()) reading.times.push_back(record->time);
  }
  return reading;
}

using Times = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a trace and its ring read packed as they do unpacked", "[unit]") {
  const TemporaryFolder folder;
  const fs::path path = trace_with_ring().write(folder.path());
  const fs::path ring = path.string() + ".ring";
  const bool packs_ring = GENERATE(false, true);
  SECTION("by gzip") {
    if (packs_ring) packed_by_gzip(ring);
    CHECK(read(packed_by_gzip(path)).times == Times{1, 2, 3, 4});
  }
  SECTION("by zstd") {
    if (packs_ring) packed_by_zstd(ring);
    const Reading reading = read(packed_by_zstd(path));
    CHECK(reading.times == Times{1, 2, 3, 4});
    CHECK(reading.truncated_tail == 0);
  }
}

TEST_CASE("a packed file may have several members, and bytes that fill many buffers", "[unit]") {
  const TemporaryFolder folder;
  std::string content(3 << 20, '\0');
  for (std::size_t i = 0; i < content.size(); i += 7) content[i] = static_cast<char>(i * i >> 5);
  const auto check = [&](const fs::path& packed, const std::string& expected) {
    const UnpackedFile unpacked = open_unpacked(packed);
    CHECK(unpacked.is_whole);
    std::string read_back(expected.size(), '\0');
    REQUIRE(unpacked.file.bytes() == expected.size());
    REQUIRE(unpacked.file.read_at(0, read_back.data(), read_back.size()));
    CHECK(read_back == expected);
  };
  const fs::path path = folder.path() / "bytes";
  write(path, content);
  const fs::path packed = GENERATE(false, true) ? packed_by_gzip(path) : packed_by_zstd(path);
  check(packed, content);
  const std::string member = content_of(packed);
  write(packed, member + member);
  check(packed, content + content);
}

TEST_CASE("a packed trace that was cut gives what came before and says so", "[unit]") {
  const TemporaryFolder folder;
  const fs::path path = trace_with_ring().write(folder.path());
  fs::remove(path.string() + ".ring");
  const bool by_gzip = GENERATE(false, true);
  const fs::path packed = by_gzip ? packed_by_gzip(path) : packed_by_zstd(path);
  const std::string whole = content_of(packed);
  write(packed, whole.substr(0, whole.size() - (by_gzip ? 8 : 1)));
  const UnpackedFile unpacked = open_unpacked(packed);
  CHECK_FALSE(unpacked.is_whole);
  if (by_gzip) {
    CHECK(read(packed).times == Times{1, 2});
    CHECK(read(packed).truncated_tail == 1);
  }
}

TEST_CASE("packed traces are found in folders, each trace once", "[unit]") {
  const TemporaryFolder folder;
  for (const char* name :
       {"a.gmt", "a.gmt.gz", "a.gmt.zst", "b.gmt.gz", "b.gmt.ring.gz", "c.gmt.zst", "d.json.gz"}) {
    write(folder.path() / name, "x");
  }
  std::vector<std::string> names;
  for (const fs::path& path : find_traces({folder.path()})) names.push_back(path.filename());
  CHECK(names == std::vector<std::string>{"a.gmt", "b.gmt.gz", "c.gmt.zst"});
}

}  // namespace gpumemtrace::trace::unpacked_file_test
