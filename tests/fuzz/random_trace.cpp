// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/random_trace.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "tests/support/raw_trace.hpp"

namespace gpumemtrace::tests {
namespace {

using trace::KindInfo;

constexpr std::size_t kMostRecords = 300;
constexpr std::size_t kChunkBytes = 64 * 1024;
constexpr std::size_t kMostSeen = 64;  // remembered values for each meaning

// The meaning of a field. Fields of one meaning refer to each other.
std::string_view meaning_of(std::string_view field) {
  constexpr auto kAddresses =
      std::to_array<std::string_view>({"address", "destination", "source", "handle", "graph",
                                       "executable", "stream", "event", "begin", "base"});
  constexpr auto kDevices = std::to_array<std::string_view>(
      {"device", "ordinal", "location", "destination_device", "source_device"});
  if (std::ranges::find(kAddresses, field) != kAddresses.end()) return "address";
  return std::ranges::find(kDevices, field) != kDevices.end() ? "device" : field;
}

const KindInfo* kind_of(std::uint64_t word) {
  return trace::find_kind(static_cast<trace::RecordKind>(word & 0xff));
}
std::size_t words_of(std::uint64_t word) { return word >> 8 & 0xff; }

std::span<const std::byte> bytes_of(std::span<const std::uint64_t> words) {
  return std::as_bytes(words);
}

// Divides the records of a writer into pieces that fit a chunk.
std::vector<std::span<const std::uint64_t>> chunks_of(std::span<const std::uint64_t> words) {
  std::vector<std::span<const std::uint64_t>> chunks;
  for (std::size_t begin = 0; begin < words.size();) {
    std::size_t end = begin;
    while (end < words.size() && (end - begin) * sizeof(std::uint64_t) < kChunkBytes - 4096) {
      end += words_of(words[end]);
    }
    chunks.push_back(words.subspan(begin, end - begin));
    begin = end;
  }
  return chunks;
}

}  // namespace

WordsByWriter records_of(const std::filesystem::path& trace) {
  WordsByWriter known;
  const trace::TraceFile file(trace);
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    std::vector<std::uint64_t>& words = known[stream.writer];
    while (const trace::RecordHeader* record = cursor.next()) {
      const auto* const first = reinterpret_cast<const std::uint64_t*>(record);
      words.insert(words.end(), first, first + record->words);
    }
  }
  return known;
}

std::uint64_t RandomTrace::extreme() {
  constexpr auto kBits =
      std::to_array<unsigned>({7, 8, 15, 16, 20, 21, 31, 32, 33, 47, 48, 62, 63});
  const std::uint64_t power = one_of(8) ? 0 : std::uint64_t{1} << kBits[below(kBits.size())];
  return power + below(5) - 2;
}

std::uint64_t RandomTrace::value_of(const trace::Field& field) {
  std::vector<std::uint64_t>& seen = seen_[meaning_of(field.name)];
  const std::uint64_t choice = below(32);
  if (choice < 14 && !seen.empty()) return seen[below(seen.size())];
  std::uint64_t value = below(1 + below(24));
  if (choice == 31) value = extreme();
  if (choice == 30) value = random_();
  if (choice >= 26 && choice < 30 && field.bytes == 8) value = below(64) << below(40);
  if (seen.size() == kMostSeen) {
    seen[below(seen.size())] = value;
  } else {
    seen.push_back(value);
  }
  return value;
}

void RandomTrace::set(std::uint64_t* record, const trace::Field& field, std::uint64_t value) {
  std::memcpy(reinterpret_cast<std::byte*>(record) + field.offset, &value, field.bytes);
}

std::string RandomTrace::text() {
  using namespace std::string_view_literals;
  static constexpr auto kPieces =
      std::to_array<std::string_view>({"train.py",
                                       "forward",
                                       "backward",
                                       "/site-packages/torch/nn/modules/module.py",
                                       "libtorch.so",
                                       "libcudart.so.13",
                                       "libpython3.12.so.1.0",
                                       "cudaMalloc",
                                       "cuMemAlloc_v2\0cudaMalloc"sv,
                                       "layer.0.weight",
                                       "2.7.1",
                                       "expandable_segments:True",
                                       "roundup_power2_divisions:8",
                                       "leak:*",
                                       "1",
                                       "host",
                                       "<frozen ",
                                       "\x1b[31m",
                                       "\n::error file=x::forged\n",
                                       "\r",
                                       "\b\b",
                                       "\x9b",
                                       "caf\xe9",
                                       "\xed\xb3\xa9",
                                       "\xe2\x80\xae",
                                       "\xef\xbf\xbf",
                                       "\xc2\x9b",
                                       "<&\"'>]]>",
                                       "=1+1",
                                       "##[error]forged",
                                       "::warning::forged",
                                       "%0A",
                                       "",
                                       "\0"sv,
                                       "a b",
                                       ";",
                                       "../..",
                                       "\xf0\x9f"});
  std::string text;
  for (std::uint64_t i = 0; i <= below(4); ++i) text += kPieces[below(kPieces.size())];
  if (one_of(40)) text.resize(below(800), 'x');
  return text;
}

std::string RandomTrace::tail_of(const KindInfo& kind, const std::uint64_t* record) {
  if (kind.kind != trace::RecordKind::kStack) return text();
  // The tail has as many frames as the record says, now and then fewer or more.
  trace::Stack stack;
  std::memcpy(static_cast<void*>(&stack), record, sizeof stack);
  std::uint64_t frames = std::uint64_t{stack.native_frames} + stack.python_frames;
  if (one_of(8)) frames = below(20);
  std::string tail(8 * std::min<std::uint64_t>(frames, 120), '\0');
  for (std::size_t i = 0; i < tail.size(); i += 8) {
    const std::uint64_t frame =
        one_of(2) ? below(8) << 32 | below(64) : 0x7f0000000000 + below(4096);
    std::memcpy(tail.data() + i, &frame, sizeof frame);
  }
  return tail;
}

void RandomTrace::add_record(const KindInfo& kind, std::vector<std::uint64_t>& words) {
  const std::size_t begin = words.size();
  words.resize(begin + kind.bytes / sizeof(std::uint64_t));
  std::uint64_t* const record = words.data() + begin;
  for (const trace::Field& field : kind.fields) {
    std::uint64_t value = value_of(field);
    if (field.name == "result" && !one_of(16)) value = 0;
    if (field.name == "flags") value = one_of(3) ? std::uint64_t{1} << below(12) : 0;
    if (field.encoding == trace::Encoding::kTime) {
      time_ += one_of(30) ? std::uint64_t{1} << below(40) : below(50);
      value = one_of(200) ? extreme() : time_;
    }
    if (field.encoding == trace::Encoding::kAfterStart) value = one_of(40) ? 0 : time_ + below(30);
    set(record, field, value);
  }
  const std::string tail = kind.has_tail ? tail_of(kind, record) : std::string();
  words.resize(words.size() + (tail.size() + 7) / 8);
  if (!tail.empty()) std::memcpy(words.data() + begin + kind.bytes / 8, tail.data(), tail.size());
  const std::size_t length = words.size() - begin;
  if (length > 0xff) return words.resize(begin);
  words[begin] =
      (words[begin] & ~std::uint64_t{0xffff}) | static_cast<std::uint64_t>(kind.kind) | length << 8;
}

// Leaves some records out, doubles some, and changes a field in some.
void RandomTrace::change_records(std::vector<std::uint64_t>& words) {
  std::vector<std::uint64_t> changed;
  for (std::size_t at = 0; at < words.size(); at += words_of(words[at])) {
    const KindInfo* const kind = kind_of(words[at]);
    if (kind == nullptr || one_of(12)) continue;
    const std::size_t times = one_of(12) ? 2 : 1;
    for (std::size_t i = 0; i < times; ++i) {
      const std::size_t begin = changed.size();
      changed.insert(changed.end(), words.begin() + static_cast<std::ptrdiff_t>(at),
                     words.begin() + static_cast<std::ptrdiff_t>(at + words_of(words[at])));
      const trace::Field& field = kind->fields[below(kind->fields.size())];
      if (one_of(3)) set(changed.data() + begin, field, value_of(field));
    }
  }
  words = std::move(changed);
}

std::uint32_t RandomTrace::writer() {
  if (one_of(40)) return static_cast<std::uint32_t>(extreme());
  return static_cast<std::uint32_t>(below(4));
}

void RandomTrace::write(const std::filesystem::path& folder, WordsByWriter known) {
  for (auto& [id, words] : known) change_records(words);
  if (known.empty() && !one_of(8)) {
    trace::Clock clock;
    clock.record.time = time_;
    clock.monotonic_ns = clock.realtime_ns = time_;
    RecordImage image;
    image.add(clock);
    const auto* const first = reinterpret_cast<const std::uint64_t*>(image.bytes().data());
    known[0].assign(first, first + image.bytes().size() / sizeof(std::uint64_t));
  }
  std::vector<const KindInfo*> kinds;
  for (std::uint64_t i = 0; i <= below(8); ++i)
    kinds.push_back(&trace::kKinds[below(trace::kKinds.size())]);
  const bool has_checkpoint = one_of(3);
  for (std::uint64_t i = below(kMostRecords); i > 0; --i) {
    // Half of the records are of the first kind, which this trace is about.
    const KindInfo& kind = *kinds[one_of(2) ? 0 : below(kinds.size())];
    const bool is_old = has_checkpoint && one_of(2);
    add_record(kind, known[is_old ? trace::kCheckpointWriter : writer()]);
  }
  RawTrace file;
  file.add_schema(own_schema_bytes());
  const bool has_ring = one_of(3);
  if (has_ring) file.begin_ring();
  for (const auto& [id, words] : known) {
    std::uint32_t sequence = one_of(30) ? static_cast<std::uint32_t>(extreme()) : 0;
    for (const std::span<const std::uint64_t> chunk : chunks_of(words)) {
      if (id == trace::kCheckpointWriter) {
        trace::BlockHeader header;
        header.type = trace::BlockType::kCheckpoint;
        header.writer = id;
        header.sequence = sequence++;
        header.end_offset = static_cast<std::uint32_t>(chunk.size_bytes());
        file.add_block(header, pack_image(bytes_of(chunk)));
      } else if (has_ring && one_of(2)) {
        const auto state = one_of(2) ? trace::ChunkState::kSealed : trace::ChunkState::kActive;
        file.add_chunk(id, sequence++, bytes_of(chunk), state, 2 * kChunkBytes);
      } else {
        const auto codec = one_of(4) ? trace::Codec::kZstd : trace::Codec::kNone;
        file.add_records(id, sequence++, 0, bytes_of(chunk), codec);
      }
    }
  }
  std::filesystem::remove(folder / "trace.gmt.ring");
  (void)file.write(folder);
}

}  // namespace gpumemtrace::tests
