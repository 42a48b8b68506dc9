// SPDX-License-Identifier: Apache-2.0
// Gives schemas, columns and raw records straight to their decoders. Decoded records must also come
// back unchanged if they are packed and unpacked once more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/fuzz/checks.hpp"
#include "tests/fuzz/columns_input.hpp"
#include "tests/support/raw_trace.hpp"
#include "trace/decode.hpp"
#include "trace/pack.hpp"
#include "trace/unpack.hpp"

namespace {

using namespace gpumemtrace;

const trace::RecordHeader& record_at(const trace::Image& image, std::size_t offset) {
  return *reinterpret_cast<const trace::RecordHeader*>(image.data() + offset);
}

// True if a call's end is so far from its begin that 1 + zigzag(end - begin) needs 65 bits.
bool has_end_without_encoding(const trace::Image& image) {
  bool found = false;
  for (std::size_t offset = 0; offset < image.bytes;) {
    const trace::RecordHeader& record = record_at(image, offset);
    if (trace::is_call(record.kind)) {
      const auto& call = trace::as<trace::OtherCall>(record).call;
      found |= call.end - record.time == std::uint64_t{1} << 63;
    }
    offset += record.words * trace::kWordBytes;
  }
  return found;
}

// Decodes columns by the recorder's own decoder, which columns of another origin must not harm.
std::optional<std::vector<std::uint64_t>> decode_columns(std::span<const std::byte> columns,
                                                         std::size_t image_bytes) {
  static trace::DecodeScratch scratch;
  std::vector<std::uint64_t> words(image_bytes / trace::kWordBytes);
  if (!trace::decode(columns, std::as_writable_bytes(std::span(words)), scratch)) return {};
  return words;
}

bool same_records(const std::vector<std::uint64_t>& words, const trace::Image& image) {
  return words.size() * trace::kWordBytes == image.bytes &&
         std::equal(words.begin(), words.end(), image.words.begin());
}

void check_image(const trace::Image& image) {
  tests::require(image.bytes <= image.words.size() * trace::kWordBytes, "an image has its bytes");
  std::size_t records = 0;
  std::size_t offset = 0;
  while (offset < image.bytes) {
    tests::require(image.bytes - offset >= sizeof(trace::RecordHeader), "records fill the image");
    const trace::RecordHeader& record = record_at(image, offset);
    tests::require(record.words * trace::kWordBytes <= image.bytes - offset,
                   "records fill the image");
    tests::check_record(record);
    offset += record.words * trace::kWordBytes;
    ++records;
  }
  if (records == 0 || image.bytes > trace::kMaxChunkBytes || has_end_without_encoding(image)) {
    return;
  }
  static const std::optional<trace::FileSchema> schema =
      trace::FileSchema::parse(tests::own_schema_bytes());
  const auto content = std::as_bytes(std::span(image.words)).first(image.bytes);
  const std::vector<std::byte> columns = tests::pack_image(content);
  tests::require(!columns.empty(), "what the reader hands out can be packed");
  const auto decoded = decode_columns(columns, image.bytes);
  tests::require(decoded && same_records(*decoded, image), "the recorder reads what it packed");
  trace::Image again;
  trace::UnpackScratch scratch;
  std::uint64_t unknown_records = 0;
  tests::require(trace::unpack(*schema, columns, again, scratch, unknown_records),
                 "what was packed can be unpacked");
  tests::require(again.bytes == image.bytes && unknown_records == 0 &&
                     std::memcmp(again.data(), image.data(), image.bytes) == 0,
                 "packing and unpacking changes nothing");
}

std::size_t take_number(std::span<const std::byte>& input, std::size_t bytes) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < bytes && !input.empty(); ++i) {
    value |= static_cast<std::size_t>(input.front()) << (8 * i);
    input = input.subspan(1);
  }
  return value;
}

std::span<const std::byte> take(std::span<const std::byte>& input, std::size_t bytes) {
  const auto taken = input.first(std::min(bytes, input.size()));
  input = input.subspan(taken.size());
  return taken;
}

// Gives an input's columns the headers that a payload has.
std::vector<std::byte> expand_columns(std::span<const std::byte> input) {
  std::vector<std::byte> payload;
  while (!input.empty()) {
    trace::ColumnHeader header;
    const std::size_t kind = take_number(input, 1);
    header.kind = static_cast<std::uint8_t>(kind & ~std::size_t{tests::kSameForm});
    if ((kind & tests::kSameForm) != 0) header.form = trace::ColumnForm::kSame;
    header.field = static_cast<std::uint8_t>(take_number(input, 1));
    const auto column = take(input, take_number(input, 1));
    header.bytes = static_cast<std::uint32_t>(column.size());
    tests::append_object(payload, header);
    payload.insert(payload.end(), column.begin(), column.end());
  }
  return payload;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto input = std::as_bytes(std::span(data, size));
  const auto options = static_cast<std::uint8_t>(take_number(input, 1));
  std::optional<trace::FileSchema> schema;
  if ((options & tests::kUnpackOwnSchema) != 0) {
    schema = trace::FileSchema::parse(tests::own_schema_bytes());
    tests::require(schema.has_value(), "the schema of this version can be read");
  } else {
    // The schema is copied, so that a read behind its end is noticed.
    const auto part = take(input, take_number(input, 2));
    schema = trace::FileSchema::parse(std::vector<std::byte>(part.begin(), part.end()));
    if (!schema) return 0;
  }
  trace::Image image;
  std::uint64_t unknown_records = 0;
  if ((options & tests::kUnpackRecords) != 0) {
    const std::vector<std::byte> raw(input.begin(), input.end());
    const bool whole = trace::convert(*schema, raw, image, unknown_records);
    if ((options & tests::kUnpackOwnSchema) != 0) {
      tests::require(image.bytes <= raw.size() && (!whole || image.bytes == raw.size()) &&
                         std::equal(image.data(), image.data() + image.bytes, raw.begin()),
                     "records of this version stay as they are");
    }
  } else {
    const std::vector<std::byte> columns = (options & tests::kUnpackAsItIs) != 0
                                               ? std::vector<std::byte>(input.begin(), input.end())
                                               : expand_columns(input);
    trace::UnpackScratch scratch;
    const bool whole = trace::unpack(*schema, columns, image, scratch, unknown_records);
    tests::require(whole || image.bytes == 0, "malformed columns give no records");
    if ((options & tests::kUnpackOwnSchema) != 0) {
      const auto decoded = decode_columns(columns, whole ? image.bytes : 512);
      tests::require(!decoded || !whole || same_records(*decoded, image),
                     "both decoders read the same records");
    }
  }
  check_image(image);
  return 0;
}
