// SPDX-License-Identifier: Apache-2.0
#include "trace/unpack.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "trace/columns.hpp"
#include "trace/file_layout.hpp"
#include "trace/order.hpp"
#include "trace/pack.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::trace {
namespace {

// Reads the schema payload; `failed_` is set if the payload ended too early.
class SchemaCursor {
 public:
  explicit SchemaCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t byte() {
    if (position_ >= bytes_.size()) {
      failed_ = true;
      return 0;
    }
    return static_cast<std::size_t>(bytes_[position_++]);
  }
  std::uint16_t two_bytes() {
    const std::size_t low = byte();
    return static_cast<std::uint16_t>(low | (byte() << 8));
  }
  std::string_view text() {
    const std::size_t length = byte();
    if (failed_ || bytes_.size() - position_ < length) {
      failed_ = true;
      return {};
    }
    const std::string_view result(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
    position_ += length;
    return result;
  }
  bool failed() const { return failed_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

bool valid_field(const FileSchema::FieldMap& field, std::uint16_t struct_bytes) {
  const bool width = field.file_bytes == 1 || field.file_bytes == 2 || field.file_bytes == 4 ||
                     field.file_bytes == 8;
  return width && field.encoding <= Encoding::kAfterStart &&
         field.file_offset + field.file_bytes <= struct_bytes;
}

// False if a field has an encoding that it cannot have: times and ends, and only these, are encoded
// as differences to the record before or to the start.
bool valid_encoding(const KindInfo& kind, const FileSchema::FieldMap& field) {
  const bool is_time = field.offset == offsetof(RecordHeader, time);
  const bool is_end = is_call(kind.kind) && field.offset == offsetof(CallHeader, end);
  return (field.encoding == Encoding::kTime) == is_time &&
         (field.encoding == Encoding::kAfterStart) == is_end;
}

bool is_mapped(const FileSchema::KindMap& kind, const Field& ours) {
  return std::any_of(kind.fields.begin(), kind.fields.end(),
                     [&](const FileSchema::FieldMap& field) {
                       return field.wanted && field.offset == ours.offset;
                     });
}

// In files of version 1 both contexts of a context call are named "context".
bool is_named(const KindInfo& kind, const Field& ours, std::string_view name_in_file) {
  return ours.name == name_in_file || (kind.kind == RecordKind::kContextCall &&
                                       ours.name == "handle_context" && name_in_file == "context");
}

// Connects a field of the file with the field of the same name in this version's struct; false if
// the two cannot be the same field.
bool map_field(std::string_view name, const FileSchema::KindMap& kind,
               FileSchema::FieldMap& field) {
  if (kind.ours == nullptr) {
    // Records of an unknown kind are skipped, but the times of later records are differences to
    // theirs.
    field.wanted = name == "time" && field.encoding == Encoding::kTime;
    field.offset = offsetof(RecordHeader, time);
    field.bytes = sizeof(RecordHeader::time);
    return true;
  }
  for (const Field& candidate : kind.ours->fields) {
    if (!is_named(*kind.ours, candidate, name) || is_mapped(kind, candidate)) continue;
    field.wanted = true;
    field.offset = candidate.offset;
    field.bytes = candidate.bytes;
    return valid_encoding(*kind.ours, field);
  }
  return true;
}

}  // namespace

std::optional<FileSchema> FileSchema::parse(std::span<const std::byte> payload) {
  FileSchema schema;
  SchemaCursor in(payload);
  const std::size_t kinds = in.byte();
  for (std::size_t k = 0; k < kinds && !in.failed(); ++k) {
    const auto number = static_cast<std::uint8_t>(in.byte());
    KindMap& kind = schema.kinds_[number];
    if (kind.in_file) return std::nullopt;
    kind.in_file = true;
    kind.has_tail = in.byte() != 0;
    kind.file_bytes = in.two_bytes();
    in.text();
    kind.ours = find_kind(static_cast<RecordKind>(number));
    if (kind.file_bytes < sizeof(RecordHeader) || kind.file_bytes % kWordBytes != 0) {
      return std::nullopt;
    }
    const std::size_t fields = in.byte();
    for (std::size_t f = 0; f < fields && !in.failed(); ++f) {
      FieldMap field;
      field.file_offset = in.two_bytes();
      field.file_bytes = static_cast<std::uint8_t>(in.byte());
      field.encoding = static_cast<Encoding>(in.byte());
      const std::string_view name = in.text();
      if (in.failed() || !valid_field(field, kind.file_bytes) || !map_field(name, kind, field)) {
        return std::nullopt;
      }
      kind.fields.push_back(field);
    }
  }
  if (in.failed()) return std::nullopt;
  return schema;
}

namespace {

// The columns of a payload, found by kind and field.
class ColumnIndex {
 public:
  bool parse(std::span<const std::byte> payload) {
    while (!payload.empty()) {
      ColumnHeader header;
      Entry entry;
      if (!take_column(payload, header, entry.column)) return false;
      entry.key = key(header.kind, header.field);
      entries_.push_back(entry);
    }
    // The entries are in order already, unless the payload is hostile; then there may be many.
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.key < b.key; });
    return std::adjacent_find(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
             return a.key == b.key;
           }) == entries_.end();
  }
  Column find(std::uint8_t kind, std::uint8_t field) const {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), key(kind, field),
                         [](const Entry& entry, unsigned wanted) { return entry.key < wanted; });
    if (found == entries_.end() || found->key != key(kind, field)) return {};
    return found->column;
  }
  // Finds a column of kinds or tails, which has the form kEach only.
  std::span<const std::byte> find_bytes(std::uint8_t kind, std::uint8_t field) const {
    const Column column = find(kind, field);
    return column.form == ColumnForm::kEach ? column.bytes : std::span<const std::byte>();
  }

 private:
  struct Entry {
    unsigned key = 0;
    Column column;
  };
  static unsigned key(std::uint8_t kind, std::uint8_t field) { return kind * 256u + field; }
  std::vector<Entry> entries_;
};

// Decodes a block into an image: first the offset of each record, then, kind by kind, the records'
// content. Times are summed up later, so records of unknown kinds get a slot too: a bare header,
// which is removed at the end.
class ImageBuilder {
 public:
  ImageBuilder(const FileSchema& schema, const ColumnIndex& columns, Image& image,
               UnpackScratch& scratch)
      : schema_(schema), columns_(columns), image_(image), scratch_(scratch) {}

  bool build() {
    const std::span<const std::byte> kinds = columns_.find_bytes(0, kKindsColumn);
    if (kinds.empty() || kinds.size() > PackScratch::kMaxRecords) return false;
    group(kinds);
    if (!read_tail_words(kinds) || !lay_out(kinds)) return false;
    for (std::size_t k = 0; k < 256; ++k) {
      if (count_of(k) != 0 && !fill(static_cast<std::uint8_t>(k))) return false;
    }
    return true;
  }

 private:
  // Counting sort: begin_of_kind[k] becomes the number of records whose kind is below k.
  void group(std::span<const std::byte> kinds) {
    scratch_.begin_of_kind.fill(0);
    for (const std::byte kind : kinds) ++scratch_.begin_of_kind[static_cast<std::size_t>(kind) + 1];
    for (std::size_t k = 1; k < scratch_.begin_of_kind.size(); ++k) {
      scratch_.begin_of_kind[k] += scratch_.begin_of_kind[k - 1];
    }
  }

  std::uint32_t count_of(std::size_t kind) const {
    return scratch_.begin_of_kind[kind + 1] - scratch_.begin_of_kind[kind];
  }

  // True if records of the kind have a tail both in the file and in this version.
  static bool has_tail(const FileSchema::KindMap& kind) {
    return kind.ours != nullptr && kind.ours->has_tail && kind.has_tail;
  }

  bool read_tail_words(std::span<const std::byte> kinds) {
    scratch_.tail_words.assign(kinds.size(), 0);
    for (std::size_t k = 0; k < 256; ++k) {
      const std::uint32_t count = count_of(k);
      const FileSchema::KindMap& kind = schema_.kind(static_cast<std::uint8_t>(k));
      if (count != 0 && !kind.in_file) return false;
      if (count == 0 || !has_tail(kind)) continue;
      const auto column = columns_.find_bytes(static_cast<std::uint8_t>(k), kTailWordsColumn);
      const std::span<std::uint64_t> words(scratch_.tail_words.data() + scratch_.begin_of_kind[k],
                                           count);
      if (!decode_varints(column, words)) return false;
      const std::uint64_t most = kMaxRecordWords - kind.ours->bytes / kWordBytes;
      for (const std::uint64_t value : words) {
        if (value > most) return false;
      }
    }
    return true;
  }

  std::size_t struct_bytes(std::uint8_t kind) const {
    const KindInfo* ours = schema_.kind(kind).ours;
    return ours == nullptr ? sizeof(RecordHeader) : ours->bytes;
  }

  // Sets the offset of each record in the image, in file order and grouped by kind, and sizes the
  // image; false if the image would be too large.
  bool lay_out(std::span<const std::byte> kinds) {
    image_.resize_records(kinds.size());
    scratch_.grouped.resize(kinds.size());
    std::size_t bytes = 0;
    auto next = scratch_.begin_of_kind;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto kind = static_cast<std::uint8_t>(kinds[i]);
      const std::uint32_t slot = next[kind]++;
      image_.offsets[i] = static_cast<std::uint32_t>(bytes);
      scratch_.grouped[slot] = static_cast<std::uint32_t>(bytes);
      bytes += struct_bytes(kind) + scratch_.tail_words[slot] * kWordBytes;
    }
    if (bytes > kMaxImageBytes) return false;
    image_.resize(bytes);
    return true;
  }

  bool fill(std::uint8_t number) {
    const FileSchema::KindMap& kind = schema_.kind(number);
    const std::uint32_t begin = scratch_.begin_of_kind[number];
    const std::span<const std::uint32_t> offsets(scratch_.grouped.data() + begin, count_of(number));
    const auto column_of = [&](std::size_t field) -> std::optional<Column> {
      if (!kind.fields[field].wanted) return std::nullopt;
      return columns_.find(number, static_cast<std::uint8_t>(field));
    };
    const std::size_t bytes = struct_bytes(number);
    return fill_records(number, bytes, kind.fields, column_of, offsets, image_.data()) &&
           (!has_tail(kind) ||
            fill_tails(columns_.find_bytes(number, kTailBytesColumn),
                       scratch_.tail_words.data() + begin, bytes, offsets, image_.data()));
  }

  const FileSchema& schema_;
  const ColumnIndex& columns_;
  Image& image_;
  UnpackScratch& scratch_;
};

// Removes the records of kinds that this version does not know; the others move together. Adds the
// number of those removed to `unknown_records`.
void remove_unknown(Image& image, std::uint64_t& unknown_records) {
  std::size_t bytes = 0;
  std::size_t records = 0;
  for (const std::uint32_t offset : image.offsets) {
    const std::byte* record = image.data() + offset;
    const std::size_t record_bytes = static_cast<std::size_t>(record[1]) * kWordBytes;
    if (find_kind(static_cast<RecordKind>(record[0])) == nullptr) {
      ++unknown_records;
    } else {
      std::memmove(image.data() + bytes, record, record_bytes);
      image.offsets[records++] = static_cast<std::uint32_t>(bytes);
      bytes += record_bytes;
    }
  }
  image.resize_records(records);
  image.bytes = bytes;
}

// Computes the sort keys of an image's records, one after the other, once their times are known.
class KeyWriter {
 public:
  explicit KeyWriter(Image& image) : next_(image.keys.data()) {}
  void operator()(const RecordHeader& record) {
    last_ = std::max(last_, order_key(record));
    *next_++ = last_;
  }

 private:
  std::uint64_t* next_;
  std::uint64_t last_ = 0;
};

void write_keys(Image& image) {
  KeyWriter writer(image);
  for (std::size_t i = 0; i < image.offsets.size(); ++i) writer(*image.record(i));
}

}  // namespace

bool holds_any(const KindSet& kinds, std::span<const std::byte> columns) {
  ColumnHeader header;
  Column column;
  while (take_column(columns, header, column)) {
    if (header.kind != 0) continue;
    return std::any_of(column.bytes.begin(), column.bytes.end(),
                       [&](std::byte kind) { return kinds[static_cast<std::size_t>(kind)]; });
  }
  return true;
}

bool unpack(const FileSchema& schema, std::span<const std::byte> columns, Image& image,
            UnpackScratch& scratch, std::uint64_t& unknown_records) {
  ColumnIndex index;
  image.clear();
  if (!index.parse(columns)) return false;
  if (!ImageBuilder(schema, index, image, scratch).build()) {
    image.clear();
    return false;
  }
  bool any_unknown = false;
  for (std::size_t k = 0; k < 256; ++k) {
    any_unknown |= scratch.begin_of_kind[k + 1] != scratch.begin_of_kind[k] &&
                   schema.kind(static_cast<std::uint8_t>(k)).ours == nullptr;
  }
  if (any_unknown) {
    sum_times(image.data(), image.offsets, [](const RecordHeader&) {});
    remove_unknown(image, unknown_records);
    write_keys(image);
  } else {
    // Times and keys are computed in one pass: the records are in the cache.
    sum_times(image.data(), image.offsets, KeyWriter(image));
  }
  return true;
}

namespace {

// Length of the record that begins `raw`; 0 if these bytes are no record of the file's schema.
std::size_t raw_record_bytes(const FileSchema& schema, std::span<const std::byte> raw) {
  if (raw.size() < sizeof(RecordHeader)) return 0;
  const FileSchema::KindMap& kind = schema.kind(static_cast<std::uint8_t>(raw[0]));
  const std::size_t bytes = static_cast<std::size_t>(raw[1]) * kWordBytes;
  if (!kind.in_file || bytes < kind.file_bytes || bytes > raw.size()) return 0;
  if (bytes != kind.file_bytes && !kind.has_tail) return 0;
  return bytes;
}

// The value of a field in the file's layout, sign-extended or zero-extended to a word.
std::uint64_t load_raw_field(const std::byte* record, const FileSchema::FieldMap& field) {
  const std::uint64_t value = load_field(record, field.file_offset, field.file_bytes);
  if (field.encoding != Encoding::kSigned) return value;
  const unsigned shift = 64u - 8u * field.file_bytes;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
}

}  // namespace

bool convert(const FileSchema& schema, std::span<const std::byte> raw, Image& image,
             std::uint64_t& unknown_records) {
  image.clear();
  image.words.clear();
  image.words.reserve(raw.size() / kWordBytes);
  bool whole = true;
  while (!raw.empty()) {
    const std::size_t bytes = raw_record_bytes(schema, raw);
    whole = bytes != 0;
    if (!whole) break;
    const std::byte* const in = raw.data();
    const FileSchema::KindMap& kind = schema.kind(static_cast<std::uint8_t>(in[0]));
    raw = raw.subspan(bytes);
    if (kind.ours == nullptr) {
      ++unknown_records;
      continue;
    }
    const std::size_t tail_bytes = kind.ours->has_tail ? bytes - kind.file_bytes : 0;
    const std::size_t our_words = (kind.ours->bytes + tail_bytes) / kWordBytes;
    whole = our_words <= kMaxRecordWords;
    if (!whole) break;
    const std::size_t begin = image.words.size();
    image.offsets.push_back(static_cast<std::uint32_t>(begin * kWordBytes));
    image.words.resize(begin + our_words, 0);
    auto* out = reinterpret_cast<std::byte*>(image.words.data() + begin);
    out[0] = in[0];
    out[1] = static_cast<std::byte>(our_words);
    for (const FileSchema::FieldMap& field : kind.fields) {
      if (field.wanted) store_field(out, field.offset, field.bytes, load_raw_field(in, field));
    }
    if (tail_bytes != 0) std::memcpy(out + kind.ours->bytes, in + kind.file_bytes, tail_bytes);
  }
  image.bytes = image.words.size() * kWordBytes;
  image.keys.resize(image.offsets.size());
  write_keys(image);
  return whole;
}

}  // namespace gpumemtrace::trace
