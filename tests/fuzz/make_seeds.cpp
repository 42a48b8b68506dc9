// SPDX-License-Identifier: Apache-2.0
// make_seeds FOLDER TRACE...: turns recorded traces into seeds for the fuzzers: a few records of
// every kind, uncompressed, as blocks, ring chunks, columns and raw records. Writes into
// FOLDER/reader and FOLDER/unpack.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/fuzz/columns_input.hpp"
#include "tests/fuzz/trace_input.hpp"
#include "tests/support/raw_trace.hpp"
#include "trace/reader.hpp"

namespace {

using namespace gpumemtrace;
using tests::RawTrace;
using tests::RecordImage;

constexpr std::size_t kRecordsOfKind = 3;

// Collects the first records of every kind; longer tails than a few words teach a fuzzer nothing.
class Sample {
 public:
  void take_from(const std::filesystem::path& path) {
    const trace::TraceFile file(path);
    for (const trace::WriterStream& stream : file.writers()) {
      trace::WriterCursor cursor(file, stream);
      while (const trace::RecordHeader* record = cursor.next()) take(*record);
    }
  }
  // Adds a record of zeros for each kind that no trace had.
  void complete() {
    for (const trace::KindInfo& info : trace::kKinds) {
      if (counts_.count(info.kind) != 0) continue;
      const std::size_t words = info.bytes / trace::kWordBytes + (info.has_tail ? 2 : 0);
      std::vector<std::byte> record(words * trace::kWordBytes);
      record[0] = static_cast<std::byte>(info.kind);
      record[1] = static_cast<std::byte>(words);
      take(*reinterpret_cast<const trace::RecordHeader*>(record.data()));
    }
  }
  const std::map<trace::RecordKind, RecordImage>& kinds() const { return kinds_; }
  // Returns `count` records of all kinds in turn, from number `first` on.
  RecordImage mixed(std::size_t first, std::size_t count) const {
    RecordImage image;
    for (std::size_t i = first; i < std::min(first + count, all_.size()); ++i) {
      image.add_raw(all_[i]);
    }
    return image;
  }
  std::size_t size() const { return all_.size(); }

 private:
  void take(const trace::RecordHeader& record) {
    if (record.words > 24 || counts_[record.kind] == kRecordsOfKind) return;
    ++counts_[record.kind];
    const auto* begin = reinterpret_cast<const std::byte*>(&record);
    all_.emplace_back(begin, begin + record.words * trace::kWordBytes);
    hide_tail(all_.back(), trace::find_kind(record.kind)->bytes);
    kinds_[record.kind].add_raw(all_.back());
  }

  // Overwrites a tail, because paths and names of the machine that made the trace are private.
  static void hide_tail(std::vector<std::byte>& record, std::size_t begin) {
    for (std::size_t i = begin; i < record.size(); ++i) {
      if (record[i] != std::byte{0}) record[i] = std::byte{'x'};
    }
  }

  std::map<trace::RecordKind, std::size_t> counts_;
  std::map<trace::RecordKind, RecordImage> kinds_;
  std::vector<std::vector<std::byte>> all_;
};

class SeedFolder {
 public:
  explicit SeedFolder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_ / "reader");
    std::filesystem::create_directories(path_ / "unpack");
  }

  void add_trace(const std::string& name, std::uint8_t options, const RawTrace& trace) const {
    write("reader/" + name, tests::make_input(options, trace.file, trace.ring));
  }
  void add_content(const std::string& name, std::uint8_t options,
                   const std::vector<std::byte>& schema, std::span<const std::byte> content) const {
    std::vector<std::byte> bytes = {static_cast<std::byte>(options)};
    if ((options & tests::kUnpackOwnSchema) == 0) {
      bytes.push_back(static_cast<std::byte>(schema.size() & 0xff));
      bytes.push_back(static_cast<std::byte>(schema.size() >> 8));
      bytes.insert(bytes.end(), schema.begin(), schema.end());
    }
    bytes.insert(bytes.end(), content.begin(), content.end());
    write("unpack/" + name, bytes);
  }

 private:
  void write(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream out(path_ / name, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }

  std::filesystem::path path_;
};

// Packs the records of `image` into columns in the form of columns_input.hpp; columns longer than
// that form allows are left out.
std::vector<std::byte> compact_columns(std::span<const std::byte> image) {
  const std::vector<std::byte> payload = tests::pack_image(image);
  std::vector<std::byte> compact;
  for (std::size_t position = 0; position < payload.size();) {
    trace::ColumnHeader header;
    std::memcpy(&header, payload.data() + position, sizeof header);
    position += sizeof header;
    if (header.bytes <= 0xff) {
      const bool same = header.form == trace::ColumnForm::kSame;
      const std::size_t kind = header.kind | (same ? tests::kSameForm : 0u);
      for (const std::size_t value : {kind, std::size_t{header.field}, std::size_t{header.bytes}}) {
        compact.push_back(static_cast<std::byte>(value));
      }
      const auto begin = payload.begin() + static_cast<std::ptrdiff_t>(position);
      compact.insert(compact.end(), begin, begin + static_cast<std::ptrdiff_t>(header.bytes));
    }
    position += header.bytes;
  }
  return compact;
}

// Writes seeds of one kind alone: its columns and fields are a few bytes from the start of the
// input.
void write_kind_seeds(const SeedFolder& seeds, const Sample& sample) {
  for (const auto& [kind, image] : sample.kinds()) {
    const std::string name(trace::find_kind(kind)->name);
    RawTrace packed;
    packed.add_records(1, 0, 0, image.bytes());
    seeds.add_trace(name + "-packed", tests::kOwnSchema, packed);
    seeds.add_content(name + "-columns", tests::kUnpackOwnSchema, {},
                      compact_columns(image.bytes()));
    seeds.add_content(name + "-records", tests::kUnpackOwnSchema | tests::kUnpackRecords, {},
                      image.bytes());
  }
}

// Writes seeds for every way in which packed blocks and ring chunks stand beside each other.
void write_ring_seeds(const SeedFolder& seeds, const Sample& sample) {
  const RecordImage first = sample.mixed(0, 4);
  const RecordImage second = sample.mixed(4, 4);
  const RecordImage both = sample.mixed(0, 8);
  const auto first_bytes = static_cast<std::uint32_t>(first.bytes().size());
  RawTrace trace;
  trace.add_records(1, 0, 0, first.bytes());
  trace.begin_ring();
  RawTrace partly = trace;
  partly.add_chunk(1, 0, both.bytes(), trace::ChunkState::kActive);
  partly.add_chunk(2, 0, second.bytes());
  seeds.add_trace("ring-partly-packed", tests::kOwnSchema, partly);
  seeds.add_trace("ring-cut", tests::kOwnSchema | tests::kCutRing, partly);
  seeds.add_trace("ring-foreign", tests::kOwnSchema | tests::kKeepRingId, partly);
  RawTrace packed = trace;
  packed.add_chunk(1, 0, first.bytes());
  packed.add_chunk(1, 2, second.bytes(), trace::ChunkState::kSealed, 2 * trace::kMinChunkBytes);
  packed.add_chunk(1, 0, {}, trace::ChunkState::kFree);
  packed.add_records(1, 0, first_bytes + 64, second.bytes());
  seeds.add_trace("ring-missing-chunk", tests::kOwnSchema, packed);
  seeds.add_trace("ring-checksums-kept", tests::kOwnSchema | tests::kKeepChecksums, packed);
}

void write_file_seeds(const SeedFolder& seeds, const Sample& sample) {
  const RecordImage all = sample.mixed(0, sample.size());
  RawTrace compressed;
  compressed.add_records(1, 0, 0, all.bytes(), trace::Codec::kZstd);
  compressed.add_records(2, 0, 0, sample.mixed(0, 2).bytes());
  seeds.add_trace("compressed", tests::kOwnSchema | tests::kKeepLengths, compressed);
  RawTrace described;
  described.add_schema(tests::own_schema_bytes());
  described.add_records(1, 0, 0, sample.mixed(0, 3).bytes());
  seeds.add_trace("described", 0, described);
  seeds.add_content("described-columns", tests::kUnpackAsItIs, tests::own_schema_bytes(),
                    tests::pack_image(sample.mixed(0, 3).bytes()));
  seeds.add_content("described-records", tests::kUnpackRecords, tests::own_schema_bytes(),
                    sample.mixed(0, 3).bytes());
}

// Writes a trace of a later version: a record of a kind that this version does not know stands
// between two of a known kind.
void write_newer_seeds(const SeedFolder& seeds) {
  constexpr std::uint8_t kNewKind = 200;
  constexpr auto kRequester = static_cast<std::uint8_t>(trace::RecordKind::kRequester);
  constexpr std::uint8_t kKinds[] = {kRequester, kNewKind, kRequester};
  std::vector<std::byte> schema = tests::own_schema_bytes();
  schema[0] = static_cast<std::byte>(static_cast<std::uint8_t>(schema[0]) + 1);
  constexpr std::uint8_t kDescription[] = {
      kNewKind, 0, 24, 0, 3, 'n', 'e', 'w', 1,     // no tail, 24 bytes, name, one field:
      8,        0, 8,  3, 4, 't', 'i', 'm', 'e'};  // offset, width, encoding, name
  for (const std::uint8_t byte : kDescription) schema.push_back(static_cast<std::byte>(byte));

  std::vector<std::uint64_t> records;
  for (const std::uint64_t kind : kKinds) {
    records.insert(records.end(), {kind | 3u << 8, 1000 + kind, kind});
  }
  const auto raw = std::as_bytes(std::span(records));
  seeds.add_content("newer-records", tests::kUnpackRecords, schema, raw);

  std::vector<std::byte> columns;
  const auto column = [&](std::uint8_t kind, std::uint8_t field,
                          std::initializer_list<std::uint8_t> values) {
    for (const std::uint8_t byte : {kind, field, static_cast<std::uint8_t>(values.size())}) {
      columns.push_back(static_cast<std::byte>(byte));
    }
    for (const std::uint8_t value : values) columns.push_back(static_cast<std::byte>(value));
  };
  column(0, trace::kKindsColumn, {kKinds[0], kKinds[1], kKinds[2]});
  for (std::uint8_t field = 0; field < 5; ++field) column(kRequester, field, {2, 4});
  column(kNewKind, 0, {20});
  seeds.add_content("newer-columns", 0, schema, columns);

  RawTrace trace;
  trace.add_schema(schema);
  trace.begin_ring();
  trace.add_chunk(1, 0, raw);
  seeds.add_trace("newer", 0, trace);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("Usage: make_seeds FOLDER TRACE...\n", stderr);
    return 2;
  }
  try {
    Sample sample;
    for (int i = 2; i < argc; ++i) sample.take_from(argv[i]);
    const SeedFolder seeds(argv[1]);
    sample.complete();
    write_kind_seeds(seeds, sample);
    write_newer_seeds(seeds);
    write_ring_seeds(seeds, sample);
    write_file_seeds(seeds, sample);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_seeds: %s\n", error.what());
    return 1;
  }
  return 0;
}
