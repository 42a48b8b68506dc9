// SPDX-License-Identifier: Apache-2.0
#include "trace/reader.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/raw_trace.hpp"
#include "tests/support/trace_builder.hpp"
#include "trace/unpack.hpp"

namespace gpumemtrace::reader_test {

using namespace gpumemtrace::trace;
using gpumemtrace::tests::contains;
using gpumemtrace::tests::error_of;
using gpumemtrace::tests::own_schema_bytes;
using gpumemtrace::tests::RawTrace;
using gpumemtrace::tests::RecordImage;
using gpumemtrace::tests::TemporaryFolder;

namespace {

constexpr std::uint32_t kMarkBytes = sizeof(Mark);

// Mark records that differ in their times.
RecordImage marks(std::uint64_t first_time, std::uint64_t count) {
  RecordImage image;
  for (std::uint64_t i = 0; i < count; ++i) {
    Mark mark;
    mark.record.time = first_time + i;
    image.add(mark);
  }
  return image;
}

RawTrace described_trace() {
  RawTrace trace;
  trace.add_schema(own_schema_bytes());
  return trace;
}

struct Reading {
  std::vector<std::uint64_t> times;  // times of all records, one writer after the other
  ReadLosses losses;
  bool has_ring = false;
};

Reading read(const std::filesystem::path& path) {
  const TraceFile file(path);
  Reading reading;
  reading.losses = file.losses();
  reading.has_ring = file.has_ring();
  for (const WriterStream& stream : file.writers()) {
    WriterCursor cursor(file, stream);
    while (const RecordHeader* record = cursor.next()) reading.times.push_back(record->time);
    reading.losses.corrupt_blocks += cursor.losses().corrupt_blocks;
    reading.losses.malformed_records += cursor.losses().malformed_records;
    reading.losses.unknown_records += cursor.losses().unknown_records;
  }
  return reading;
}

Reading read(const RawTrace& trace) {
  const TemporaryFolder folder;
  return read(trace.write(folder.path()));
}

std::string error_of(const std::filesystem::path& path) {
  try {
    const TraceFile file(path);
  } catch (const TraceError& error) {
    return error.what();
  }
  return "no error";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kNoSchema = " holds no readable record description; it was cut or damaged.";

using Times = std::vector<std::uint64_t>;

// A trace with a ring of one chunk, as it stands on disk while its process runs: the ring locked,
// both files changing.
class LiveTrace {
 public:
  explicit LiveTrace(const std::filesystem::path& path)
      : path_(path),
        file_(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)),
        ring_(open((path.string() + ".ring").c_str(), O_RDWR | O_CLOEXEC)) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    REQUIRE(file_ >= 0);
    REQUIRE(fcntl(ring_, F_OFD_SETLK, &lock) == 0);
    void* const mapped = mmap(nullptr, kRingHeaderBytes + kMinChunkBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, ring_, 0);
    REQUIRE(mapped != MAP_FAILED);
    chunk_ = reinterpret_cast<ChunkHeader*>(static_cast<std::byte*>(mapped) + kRingHeaderBytes);
  }
  ~LiveTrace() {
    munmap(reinterpret_cast<std::byte*>(chunk_) - kRingHeaderBytes,
           kRingHeaderBytes + kMinChunkBytes);
    close(ring_);
    close(file_);
  }
  LiveTrace(const LiveTrace&) = delete;
  LiveTrace& operator=(const LiveTrace&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void append_to_file(std::span<const std::byte> bytes) {
    is_whole_ &= write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }

  // Reuses the chunk for other records; its former records are in the file.
  void reuse_chunk(std::uint32_t writer, std::uint32_t sequence,
                   std::span<const std::byte> content) {
    chunk_->state = ChunkState::kFree;
    chunk_->committed = 0;
    chunk_->writer = writer;
    chunk_->sequence = sequence;
    ++chunk_->generation;
    chunk_->state = ChunkState::kActive;
    std::memcpy(static_cast<void*>(chunk_ + 1), content.data(), content.size());
    chunk_->committed = static_cast<std::uint32_t>(content.size());
  }

  bool is_whole() const { return is_whole_; }

 private:
  std::filesystem::path path_;
  int file_;
  int ring_;
  ChunkHeader* chunk_ = nullptr;
  bool is_whole_ = true;
};

// A trace of three blocks of two writers, with the offsets in the file at which the schema and each
// block end.
struct SmallTrace {
  RawTrace trace = described_trace();
  std::size_t schema_end = trace.file.size();
  std::vector<std::size_t> block_ends;
  std::vector<Times> block_times;

  SmallTrace() {
    add(1, 0, 10, 2);
    add(1, 1, 20, 1);
    add(2, 0, 30, 3);
  }
  void add(std::uint32_t writer, std::uint32_t sequence, std::uint64_t time, std::uint64_t count) {
    trace.add_records(writer, sequence, 0, marks(time, count).bytes());
    block_ends.push_back(trace.file.size());
    block_times.emplace_back();
    for (std::uint64_t i = 0; i < count; ++i) block_times.back().push_back(time + i);
  }
};

// Returns the next position to test: every seventh byte of the schema, which is long, and every
// byte behind the schema.
std::size_t next_byte(std::size_t position, std::size_t schema_end) {
  constexpr std::size_t kStep = 7;
  return position + kStep < schema_end ? position + kStep : position + 1;
}

}  // namespace

TEST_CASE("a cursor that looks for kinds leaves out blocks without them", "[unit]") {
  RawTrace trace = described_trace();
  RecordImage clock = marks(20, 2);
  clock.add(Clock{});
  trace.add_records(1, 0, 0, marks(10, 2).bytes());
  trace.add_records(1, 1, 0, clock.bytes());
  trace.add_records(1, 2, 0, marks(30, 2).bytes());
  const TemporaryFolder folder;
  const TraceFile file(trace.write(folder.path()));
  WriterCursor cursor(file, file.writers().front());
  cursor.look_for({RecordKind::kClock, RecordKind::kText});
  std::vector<RecordKind> kinds;
  while (const RecordHeader* record = cursor.next()) kinds.push_back(record->kind);
  CHECK(kinds == std::vector{RecordKind::kMark, RecordKind::kMark, RecordKind::kClock});
  CHECK(cursor.losses().corrupt_blocks == 0);
}

TEST_CASE("a trace cut at any byte gives every whole block and says what is missing", "[unit]") {
  SmallTrace small;
  const std::vector<std::byte> whole = small.trace.file;
  const TemporaryFolder folder;
  for (std::size_t length = 0; length < whole.size();
       length = next_byte(length, small.schema_end)) {
    CAPTURE(length);
    small.trace.file.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const std::filesystem::path path = small.trace.write(folder.path());
    if (length < small.schema_end) {
      const std::string refusal = error_of<TraceError>([&] { return TraceFile(path); });
      const char* const no_trace = length == 0
                                       ? " is empty, so it is not a gpumemtrace trace."
                                       : " is not a gpumemtrace trace: it does not begin as one.";
      REQUIRE(refusal == path.string() + (length < sizeof(FileHeader) ? no_trace : kNoSchema));
      continue;
    }
    Times expected;
    bool at_an_end = length == small.schema_end;
    for (std::size_t i = 0; i < small.block_ends.size(); ++i) {
      if (small.block_ends[i] > length) continue;
      expected.insert(expected.end(), small.block_times[i].begin(), small.block_times[i].end());
      at_an_end |= small.block_ends[i] == length;
    }
    const Reading reading = read(path);
    REQUIRE(reading.times == expected);
    REQUIRE(reading.losses.truncated_tail == (at_an_end ? 0 : 1));
    REQUIRE(reading.losses.corrupt_blocks == 0);
  }
}

TEST_CASE("a flipped bit costs the block that it hits, and is counted", "[unit]") {
  SmallTrace small;
  const std::vector<std::byte> whole = small.trace.file;
  const TemporaryFolder folder;
  for (std::size_t position = 0; position < whole.size();
       position = next_byte(position, small.schema_end)) {
    CAPTURE(position);
    small.trace.file = whole;
    small.trace.file[position] ^= static_cast<std::byte>(1u << position % 8);
    const std::filesystem::path path = small.trace.write(folder.path());
    if (position < small.schema_end) {
      const std::string refusal = error_of<TraceError>([&] { return TraceFile(path); });
      const bool in_header = position < sizeof(FileHeader);
      REQUIRE(contains(refusal, kNoSchema) == !in_header);
      REQUIRE((contains(refusal, " is not a gpumemtrace trace") ||
               contains(refusal, " has format version ") ||
               contains(refusal, " has a damaged header.")) == in_header);
      REQUIRE(contains(refusal, path.string()));
      continue;
    }
    Times expected;
    bool hit = false;
    for (std::size_t i = 0; i < small.block_ends.size(); ++i) {
      const bool hits_this = !hit && position < small.block_ends[i];
      hit |= hits_this;
      if (hits_this) continue;
      expected.insert(expected.end(), small.block_times[i].begin(), small.block_times[i].end());
    }
    const Reading reading = read(path);
    REQUIRE(reading.times == expected);
    REQUIRE(reading.losses.corrupt_blocks == 1);
  }
}

TEST_CASE("records that stand in the packed file and in the ring are given once", "[unit]") {
  RawTrace trace = described_trace();
  SECTION("a chunk that was packed and not recycled yet") {
    trace.add_records(1, 0, 0, marks(1, 3).bytes());
    trace.begin_ring();
    trace.add_chunk(1, 0, marks(1, 3).bytes());
    CHECK(read(trace).times == Times{1, 2, 3});
  }
  SECTION("a chunk of which a part was packed") {
    trace.add_records(1, 0, 0, marks(1, 1).bytes());
    trace.add_records(1, 0, kMarkBytes, marks(2, 1).bytes());
    trace.begin_ring();
    trace.add_chunk(1, 0, marks(1, 4).bytes(), ChunkState::kActive);
    CHECK(read(trace).times == Times{1, 2, 3, 4});
  }
  SECTION("chunks of the ring stand in any order") {
    trace.add_records(1, 0, 0, marks(1, 2).bytes());
    trace.begin_ring();
    trace.add_chunk(1, 2, marks(5, 2).bytes(), ChunkState::kActive, 2 * kMinChunkBytes);
    trace.add_chunk(2, 0, marks(10, 1).bytes());
    trace.add_chunk(1, 1, marks(3, 2).bytes());
    CHECK(read(trace).times == Times{1, 2, 3, 4, 5, 6, 10});
  }
  SECTION("free chunks hold nothing, whatever their content") {
    trace.begin_ring();
    trace.add_chunk(1, 0, marks(1, 2).bytes(), ChunkState::kFree);
    trace.add_chunk(1, 1, {}, ChunkState::kActive);
    CHECK(read(trace).times.empty());
  }
  const Reading reading = read(trace);
  CHECK(reading.has_ring);
  CHECK(reading.losses.missing_chunks == 0);
  CHECK(reading.losses.corrupt_blocks == 0);
}

TEST_CASE("what is missing between chunks and within one is counted", "[unit]") {
  RawTrace trace = described_trace();
  SECTION("chunks before the first one, and between two") {
    trace.add_records(1, 2, 0, marks(1, 1).bytes());
    trace.add_records(1, 4, 0, marks(2, 1).bytes());
    CHECK(read(trace).losses.missing_chunks == 3);
  }
  SECTION("a chunk between the packed ones and the ring's") {
    trace.add_records(1, 0, 0, marks(1, 1).bytes());
    trace.begin_ring();
    trace.add_chunk(1, 2, marks(2, 1).bytes());
    CHECK(read(trace).losses.missing_chunks == 1);
  }
  SECTION("a block in the middle of a chunk") {
    trace.add_records(1, 0, 0, marks(1, 1).bytes());
    trace.add_records(1, 0, 2 * kMarkBytes, marks(2, 1).bytes());
    CHECK(read(trace).losses.missing_chunks == 1);
  }
  CHECK(read(trace).times == Times{1, 2});
}

TEST_CASE("a ring of another trace is ignored", "[unit]") {
  RawTrace trace = described_trace();
  trace.add_records(1, 0, 0, marks(1, 1).bytes());
  trace.begin_ring({0xbad, 0x1d});
  trace.add_chunk(1, 1, marks(2, 1).bytes());
  const Reading reading = read(trace);
  CHECK_FALSE(reading.has_ring);
  CHECK(reading.times == Times{1});
}

TEST_CASE("a ring shorter than its header holds nothing", "[unit]") {
  RawTrace trace = described_trace();
  trace.begin_ring();
  trace.ring.resize(100);
  CHECK_FALSE(read(trace).has_ring);
}

TEST_CASE("a packed file that ends inside a block has lost nothing while its ring is there",
          "[unit]") {
  RawTrace trace = described_trace();
  trace.add_records(1, 0, 0, marks(1, 2).bytes());
  trace.file.resize(trace.file.size() - 5);
  CHECK(read(trace).losses.truncated_tail == 1);
  trace.begin_ring();
  trace.add_chunk(1, 0, marks(1, 2).bytes());
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1, 2});
  CHECK(reading.losses.truncated_tail == 0);
}

TEST_CASE("chunks behind an extent that was never finished are found", "[unit]") {
  RawTrace trace = described_trace();
  trace.begin_ring();
  trace.add_chunk(1, 0, marks(1, 1).bytes(), ChunkState::kSealed, kMaxChunkBytes);
  trace.ring.resize(trace.ring.size() + kMaxChunkBytes);
  trace.add_chunk(2, 0, marks(2, 1).bytes(), ChunkState::kSealed, kMaxChunkBytes);
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1, 2});
  CHECK(reading.losses.corrupt_blocks == 0);
}

TEST_CASE("what moves from the ring to the file while they are read is given once", "[unit]") {
  // Many short runs instead of a long one: each block makes the next reading longer, and a reading
  // tests something only while the recorder thread writes.
  for (int run = 0; run < 100; ++run) {
    const TemporaryFolder folder;
    RawTrace trace = described_trace();
    trace.begin_ring();
    trace.add_chunk(1, 0, marks(0, 1).bytes(), ChunkState::kActive);
    LiveTrace live(trace.write(folder.path()));
    std::atomic<std::uint64_t> recorded = 0;
    std::atomic<bool> is_over = false;
    std::thread recorder([&] {
      for (std::uint32_t sequence = 1; sequence < 200; ++sequence) {
        trace.file.clear();
        trace.add_records(1, sequence - 1, 0, marks(sequence - 1, 1).bytes());
        live.append_to_file(trace.file);
        live.reuse_chunk(1, sequence, marks(sequence, 1).bytes());
        recorded = sequence;
      }
      is_over = true;
    });
    bool is_whole = true;
    std::uint64_t before = 0;
    Reading reading;
    for (bool was_over = false; is_whole && !was_over;) {
      was_over = is_over;
      before = recorded;
      reading = read(live.path());
      Times expected(std::max(reading.times.size(), before + 1));
      std::iota(expected.begin(), expected.end(), 0);
      is_whole = reading.times == expected && reading.losses.missing_chunks == 0 &&
                 reading.losses.malformed_records == 0;
    }
    recorder.join();
    REQUIRE(live.is_whole());
    INFO("run " << run << ": recorded before " << before << ", read " << reading.times.size());
    REQUIRE(is_whole);
  }
}

TEST_CASE("a damaged chunk of the ring costs itself only", "[unit]") {
  RawTrace trace = described_trace();
  trace.begin_ring();
  trace.add_chunk(1, 0, marks(1, 1).bytes());
  const std::size_t second = trace.ring.size();
  trace.add_chunk(2, 0, marks(2, 200).bytes(), ChunkState::kSealed, 4 * kMinChunkBytes);
  trace.add_chunk(3, 0, marks(1000, 1).bytes());
  const auto damage = [&](std::size_t offset, std::uint32_t value) {
    std::memcpy(trace.ring.data() + second + offset, &value, sizeof value);
  };
  SECTION("its magic") { damage(offsetof(ChunkHeader, magic), 0x12345678); }
  SECTION("its length") { damage(offsetof(ChunkHeader, bytes), 12345); }
  SECTION("its state") { damage(offsetof(ChunkHeader, state), 77); }
  SECTION("more content than it has room for") {
    damage(offsetof(ChunkHeader, committed), 4 * kMinChunkBytes);
  }
  SECTION("content that ends inside a word") { damage(offsetof(ChunkHeader, committed), 41); }
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1, 1000});
  CHECK(reading.losses.corrupt_blocks == 1);
}

TEST_CASE("a ring that was cut gives the records before the cut", "[unit]") {
  RawTrace trace = described_trace();
  trace.begin_ring();
  trace.add_chunk(1, 0, marks(1, 3).bytes());
  trace.ring.resize(kRingHeaderBytes + sizeof(ChunkHeader) + 2 * kMarkBytes);
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1, 2});
  CHECK(reading.losses.truncated_tail == 1);
}

TEST_CASE("bytes of a ring chunk that are no record end the chunk and are counted", "[unit]") {
  RawTrace trace = described_trace();
  RecordImage image = marks(1, 2);
  const std::vector<std::byte> garbage(kMarkBytes, std::byte{0xee});
  image.add_raw(garbage);
  trace.begin_ring();
  trace.add_chunk(1, 0, image.bytes());
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1, 2});
  CHECK(reading.losses.malformed_records == 1);
}

TEST_CASE("compressed blocks are read, and one that is not what it says is counted", "[unit]") {
  RawTrace trace = described_trace();
  trace.add_records(1, 0, 0, marks(1, 100).bytes(), Codec::kZstd);
  CHECK(read(trace).times.size() == 100);
  BlockHeader header;
  header.writer = 2;
  header.end_offset = 8;
  header.codec = Codec::kZstd;
  header.column_bytes = 64;
  const std::vector<std::byte> payload(16, std::byte{1});
  SECTION("no compressed data") { trace.add_block(header, payload); }
  SECTION("an unknown codec") {
    header.codec = static_cast<Codec>(9);
    trace.add_block(header, payload);
  }
  SECTION("longer than any recorder writes") {
    header.column_bytes = kMaxColumnBytes + 1;
    trace.add_block(header, payload);
  }
  SECTION("no place in its chunk") {
    header.end_offset = 0;
    trace.add_block(header, payload);
  }
  const Reading reading = read(trace);
  CHECK(reading.times.size() == 100);
  CHECK(reading.losses.corrupt_blocks == 1);
}

TEST_CASE("a schema block that cannot be parsed is passed over for one that can", "[unit]") {
  RawTrace trace;
  trace.add_schema(std::vector<std::byte>(3, std::byte{7}));
  CHECK(contains(error_of<TraceError>([&] { return read(trace); }), kNoSchema));
  trace.add_schema(own_schema_bytes());
  trace.add_records(1, 0, 0, marks(1, 1).bytes());
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1});
  CHECK(reading.losses.corrupt_blocks == 1);
}

TEST_CASE("blocks of types that this version does not know are skipped", "[unit]") {
  RawTrace trace = described_trace();
  BlockHeader header;
  header.type = static_cast<BlockType>(99);
  trace.add_block(header, std::vector<std::byte>(10));
  trace.add_records(1, 0, 0, marks(1, 1).bytes());
  const Reading reading = read(trace);
  CHECK(reading.times == Times{1});
  CHECK(reading.losses.corrupt_blocks == 0);
}

TEST_CASE("a file that is no trace is refused with a sentence that names it", "[unit]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "input.gmt";
  const auto write = [&](const std::vector<std::byte>& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  SECTION("nothing there") { CHECK(says(error_of(path), "No such file")); }
  SECTION("a folder") { CHECK(says(error_of(folder.path()), "is a folder")); }
  SECTION("a pipe") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK(says(error_of(path), "not a regular file"));
  }
  SECTION("empty") {
    write({});
    CHECK(says(error_of(path), "not a gpumemtrace trace"));
  }
  SECTION("of something else") {
    write(std::vector<std::byte>(5000, std::byte{'x'}));
    CHECK(says(error_of(path), "not a gpumemtrace trace"));
  }
  RawTrace trace;
  SECTION("of a later format") {
    trace.file[offsetof(FileHeader, version)] = std::byte{9};
    write(trace.file);
    CHECK(says(error_of(path), "version 9"));
  }
  SECTION("with a damaged header") {
    trace.file[offsetof(FileHeader, process_id)] = std::byte{9};
    write(trace.file);
    CHECK(says(error_of(path), "damaged header"));
  }
  SECTION("without a description of its records") {
    write(trace.file);
    CHECK(says(error_of(path), "no readable record description"));
  }
  if (std::filesystem::exists(path)) CHECK(says(error_of(path), path.string()));
}

TEST_CASE("traces are found in folders and one level below", "[unit]") {
  const TemporaryFolder folder;
  const auto touch = [&](const char* name) { std::ofstream(folder.path() / name) << "x"; };
  std::filesystem::create_directories(folder.path() / "job" / "deeper");
  std::filesystem::create_directory(folder.path() / "folder.gmt");
  SECTION("sorted, each once, and nothing else") {
    touch("b.gmt");
    touch("b.gmt.ring");
    touch("a.json");
    touch("job/a.gmt");
    touch("job/deeper/c.gmt");
    const std::filesystem::path b = folder.path() / "b.gmt";
    const auto found = find_traces({folder.path(), b, folder.path()});
    CHECK(found == std::vector<std::filesystem::path>{b, folder.path() / "job" / "a.gmt"});
  }
  SECTION("a folder without traces is an error") {
    CHECK(error_of<TraceError>([&] { return find_traces({folder.path()}); }) ==
          "There is no trace (*.gmt) and no snapshot of PyTorch (*.pickle) in the folder " +
              folder.path().string() + ".");
  }
  SECTION("so is a path that does not exist") {
    const std::filesystem::path missing = folder.path() / "missing.gmt";
    CHECK(error_of<TraceError>([&] { return find_traces({missing}); }) ==
          "There is no file " + missing.string() + ".");
  }
  SECTION("a file is taken as it is") {
    touch("trace.old");
    CHECK(find_traces({folder.path() / "trace.old"}).size() == 1);
  }
}

}  // namespace gpumemtrace::reader_test
