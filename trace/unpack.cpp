#include "trace/unpack.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "trace/file_layout.hpp"
#include "trace/pack.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::trace {
namespace {

constexpr std::size_t kMaxRecordsPerChunk = kMaxChunkBytes / sizeof(RecordHeader);

// Reads the schema payload; `failed` once it ended too early.
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

}  // namespace

std::optional<FileSchema> FileSchema::parse(std::span<const std::byte> payload) {
  FileSchema schema;
  SchemaCursor in(payload);
  const std::size_t kinds = in.byte();
  schema.same_layout_ = true;
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
    if (kind.ours == nullptr || kind.ours->bytes != kind.file_bytes ||
        kind.ours->has_tail != kind.has_tail) {
      schema.same_layout_ = false;
    }
    const std::size_t fields = in.byte();
    for (std::size_t f = 0; f < fields && !in.failed(); ++f) {
      FieldMap field;
      field.file_offset = in.two_bytes();
      field.file_bytes = static_cast<std::uint8_t>(in.byte());
      field.encoding = static_cast<Encoding>(in.byte());
      const std::string_view name = in.text();
      if (in.failed() || !valid_field(field, kind.file_bytes)) return std::nullopt;
      if (kind.ours != nullptr) {
        for (const Field& ours : kind.ours->fields) {
          if (ours.name != name) continue;
          field.wanted = true;
          field.offset = ours.offset;
          field.bytes = ours.bytes;
        }
      }
      if (!field.wanted || field.offset != field.file_offset || field.bytes != field.file_bytes) {
        schema.same_layout_ = false;
      }
      kind.fields.push_back(field);
    }
    if (kind.ours != nullptr && kind.fields.size() != kind.ours->fields.size()) {
      schema.same_layout_ = false;
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
    std::size_t position = 0;
    while (position < payload.size()) {
      ColumnHeader header;
      if (payload.size() - position < sizeof header) return false;
      std::memcpy(&header, payload.data() + position, sizeof header);
      position += sizeof header;
      if (payload.size() - position < header.bytes) return false;
      entries_.push_back({header.kind, header.field, payload.subspan(position, header.bytes)});
      position += header.bytes;
    }
    return true;
  }
  // An absent column is an empty one.
  std::span<const std::byte> find(std::uint8_t kind, std::uint8_t field) const {
    for (const Entry& entry : entries_) {
      if (entry.kind == kind && entry.field == field) return entry.bytes;
    }
    return {};
  }

 private:
  struct Entry {
    std::uint8_t kind;
    std::uint8_t field;
    std::span<const std::byte> bytes;
  };
  std::vector<Entry> entries_;
};

// Decodes exactly values.size() varints; false where the column has fewer.
bool decode_varints(std::span<const std::byte> column, std::span<std::uint64_t> values) {
  const std::byte* in = column.data();
  const std::byte* const end = in + column.size();
  for (std::uint64_t& value : values) {
    if (in != end && static_cast<std::uint8_t>(*in) < 0x80) {
      value = static_cast<std::uint64_t>(*in++);
      continue;
    }
    if (in == nullptr) return false;
    in = get_varint(in, end, value);
    if (in == nullptr) return false;
  }
  return true;
}

void undo_encoding(Encoding encoding, std::span<std::uint64_t> values) {
  if (encoding == Encoding::kSigned || encoding == Encoding::kTime) {
    for (std::uint64_t& value : values) value = static_cast<std::uint64_t>(unzigzag(value));
  } else if (encoding == Encoding::kDelta) {
    std::uint64_t previous = 0;
    for (std::uint64_t& value : values) {
      previous += static_cast<std::uint64_t>(unzigzag(value));
      value = previous;
    }
  }
}

template <class Value>
void scatter(std::span<const std::uint64_t> values, std::span<const std::uint32_t> offsets,
             std::byte* base) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<Value>(values[i]);
    std::memcpy(base + offsets[i], &narrow, sizeof narrow);
  }
}

void scatter_field(std::span<const std::uint64_t> values, std::span<const std::uint32_t> offsets,
                   std::byte* base, std::uint8_t bytes) {
  switch (bytes) {
    case 1: {
      scatter<std::uint8_t>(values, offsets, base);
      break;
    }
    case 2: {
      scatter<std::uint16_t>(values, offsets, base);
      break;
    }
    case 4: {
      scatter<std::uint32_t>(values, offsets, base);
      break;
    }
    default: {
      scatter<std::uint64_t>(values, offsets, base);
      break;
    }
  }
}

// Where each record of the image begins, and its `kind` and `words`. Times are summed up later,
// so records of unknown kinds get a slot too: a bare header, removed at the end.
class ImageLayout {
 public:
  ImageLayout(const FileSchema& schema, const ColumnIndex& columns, Image& image,
              UnpackScratch& scratch)
      : schema_(schema), columns_(columns), image_(image), scratch_(scratch) {}

  bool build() {
    const std::span<const std::byte> kinds = columns_.find(0, kKindsColumn);
    if (kinds.empty() || kinds.size() > kMaxRecordsPerChunk) return false;
    group(kinds);
    if (!read_tail_words(kinds)) return false;
    scratch_.offset.resize(kinds.size());
    scratch_.grouped.resize(kinds.size());
    std::size_t bytes = 0;
    auto next = scratch_.begin_of_kind;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto kind = static_cast<std::uint8_t>(kinds[i]);
      const std::uint32_t slot = next[kind]++;
      scratch_.offset[i] = static_cast<std::uint32_t>(bytes);
      scratch_.grouped[slot] = static_cast<std::uint32_t>(bytes);
      bytes += record_words(kind, slot) * kWordBytes;
    }
    image_.resize(bytes);
    next = scratch_.begin_of_kind;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto kind = static_cast<std::uint8_t>(kinds[i]);
      const std::uint32_t slot = next[kind]++;
      std::byte* record = image_.data() + scratch_.offset[i];
      record[0] = kinds[i];
      record[1] = static_cast<std::byte>(record_words(kind, slot));
    }
    return true;
  }

 private:
  void group(std::span<const std::byte> kinds) {
    scratch_.begin_of_kind.fill(0);
    for (const std::byte kind : kinds) ++scratch_.begin_of_kind[static_cast<std::size_t>(kind) + 1];
    for (std::size_t k = 1; k < scratch_.begin_of_kind.size(); ++k) {
      scratch_.begin_of_kind[k] += scratch_.begin_of_kind[k - 1];
    }
  }

  bool read_tail_words(std::span<const std::byte> kinds) {
    tail_words_.assign(kinds.size(), 0);
    for (std::size_t k = 0; k < 256; ++k) {
      const std::uint32_t begin = scratch_.begin_of_kind[k];
      const std::uint32_t count = scratch_.begin_of_kind[k + 1] - begin;
      const FileSchema::KindMap& kind = schema_.kind(static_cast<std::uint8_t>(k));
      if (count != 0 && !kind.in_file) return false;
      if (count == 0 || kind.ours == nullptr || !kind.ours->has_tail || !kind.has_tail) continue;
      const auto column = columns_.find(static_cast<std::uint8_t>(k), kTailWordsColumn);
      const std::span<std::uint64_t> words(tail_words_.data() + begin, count);
      if (!decode_varints(column, words)) return false;
      for (const std::uint64_t value : words) {
        if (value + kind.ours->bytes / kWordBytes > 255) return false;
      }
    }
    return true;
  }

  std::size_t record_words(std::uint8_t kind, std::uint32_t slot) const {
    const KindInfo* ours = schema_.kind(kind).ours;
    if (ours == nullptr) return sizeof(RecordHeader) / kWordBytes;
    return ours->bytes / kWordBytes + static_cast<std::size_t>(tail_words_[slot]);
  }

  const FileSchema& schema_;
  const ColumnIndex& columns_;
  Image& image_;
  UnpackScratch& scratch_;
  std::vector<std::uint64_t> tail_words_;
};

bool fill_fields(const FileSchema& schema, const ColumnIndex& columns, Image& image,
                 UnpackScratch& scratch) {
  for (std::size_t k = 0; k < 256; ++k) {
    const std::uint32_t begin = scratch.begin_of_kind[k];
    const std::uint32_t count = scratch.begin_of_kind[k + 1] - begin;
    if (count == 0) continue;
    const auto number = static_cast<std::uint8_t>(k);
    const FileSchema::KindMap& kind = schema.kind(number);
    const std::span<const std::uint32_t> offsets(scratch.grouped.data() + begin, count);
    scratch.values.resize(count);
    for (std::size_t f = 0; f < kind.fields.size(); ++f) {
      const FileSchema::FieldMap& field = kind.fields[f];
      // Unknown kinds need their times: those of the records after them build on them.
      const bool time_of_unknown = kind.ours == nullptr && field.encoding == Encoding::kTime;
      if (!field.wanted && !time_of_unknown) continue;
      const auto column = columns.find(number, static_cast<std::uint8_t>(f));
      if (!decode_varints(column, scratch.values)) return false;
      undo_encoding(field.encoding, scratch.values);
      const std::uint16_t offset = time_of_unknown ? offsetof(RecordHeader, time) : field.offset;
      scatter_field(scratch.values, offsets, image.data() + offset,
                    time_of_unknown ? std::uint8_t{8} : field.bytes);
    }
    if (kind.ours == nullptr || !kind.ours->has_tail || !kind.has_tail) continue;
    const auto tails = columns.find(number, kTailBytesColumn);
    std::size_t position = 0;
    for (const std::uint32_t offset : offsets) {
      std::byte* record = image.data() + offset;
      const std::size_t bytes = static_cast<std::size_t>(record[1]) * kWordBytes - kind.ours->bytes;
      if (tails.size() - position < bytes) return false;
      if (bytes != 0) std::memcpy(record + kind.ours->bytes, tails.data() + position, bytes);
      position += bytes;
    }
  }
  return true;
}

// Differences to times, in the order of recording.
void sum_times(Image& image, const UnpackScratch& scratch) {
  std::uint64_t time = 0;
  for (const std::uint32_t offset : scratch.offset) {
    std::byte* record = image.data() + offset;
    std::uint64_t value;
    std::memcpy(&value, record + offsetof(RecordHeader, time), sizeof value);
    time += value;
    std::memcpy(record + offsetof(RecordHeader, time), &time, sizeof time);
    const auto kind = static_cast<RecordKind>(record[0]);
    if (!is_call(kind)) continue;
    std::byte* end_field = record + offsetof(CallHeader, end);
    std::memcpy(&value, end_field, sizeof value);
    if (value == 0) continue;
    value = time + static_cast<std::uint64_t>(unzigzag(value - 1));
    std::memcpy(end_field, &value, sizeof value);
  }
}

void remove_unknown(Image& image, std::uint64_t& unknown_records) {
  std::size_t kept = 0;
  for (std::size_t offset = 0; offset < image.bytes;) {
    const std::byte* record = image.data() + offset;
    const std::size_t bytes = static_cast<std::size_t>(record[1]) * kWordBytes;
    if (find_kind(static_cast<RecordKind>(record[0])) == nullptr) {
      ++unknown_records;
    } else {
      std::memmove(image.data() + kept, record, bytes);
      kept += bytes;
    }
    offset += bytes;
  }
  image.bytes = kept;
}

}  // namespace

bool unpack(const FileSchema& schema, std::span<const std::byte> columns, Image& image,
            UnpackScratch& scratch, std::uint64_t& unknown_records) {
  ColumnIndex index;
  image.bytes = 0;
  if (!index.parse(columns)) return false;
  if (!ImageLayout(schema, index, image, scratch).build() ||
      !fill_fields(schema, index, image, scratch)) {
    image.bytes = 0;
    return false;
  }
  sum_times(image, scratch);
  bool any_unknown = false;
  for (std::size_t k = 0; k < 256; ++k) {
    any_unknown |= scratch.begin_of_kind[k + 1] != scratch.begin_of_kind[k] &&
                   schema.kind(static_cast<std::uint8_t>(k)).ours == nullptr;
  }
  if (any_unknown) remove_unknown(image, unknown_records);
  return true;
}

bool convert(const FileSchema& schema, std::span<const std::byte> raw, Image& image,
             std::uint64_t& unknown_records) {
  // Our structs may be larger than the file's; twice the room and one record is always enough.
  std::vector<std::uint64_t> words;
  words.reserve(raw.size() / kWordBytes * 2);
  std::size_t position = 0;
  bool whole = true;
  while (position < raw.size()) {
    const std::byte* in = raw.data() + position;
    const std::size_t left = raw.size() - position;
    const std::size_t bytes = left < 2 ? 0 : static_cast<std::size_t>(in[1]) * kWordBytes;
    const FileSchema::KindMap& kind = schema.kind(left == 0 ? 0 : static_cast<std::uint8_t>(in[0]));
    if (!kind.in_file || bytes < kind.file_bytes || bytes > left ||
        (bytes != kind.file_bytes && !kind.has_tail)) {
      whole = false;
      break;
    }
    position += bytes;
    if (kind.ours == nullptr) {
      ++unknown_records;
      continue;
    }
    const std::size_t tail = kind.ours->has_tail ? bytes - kind.file_bytes : 0;
    const std::size_t our_bytes = kind.ours->bytes + tail;
    if (our_bytes / kWordBytes > 255) {
      whole = false;
      break;
    }
    const std::size_t begin = words.size();
    words.resize(begin + our_bytes / kWordBytes, 0);
    auto* out = reinterpret_cast<std::byte*>(words.data() + begin);
    out[0] = in[0];
    out[1] = static_cast<std::byte>(our_bytes / kWordBytes);
    for (const FileSchema::FieldMap& field : kind.fields) {
      if (!field.wanted) continue;
      store_field(out, field.offset, field.bytes,
                  load_field(in, field.file_offset, field.file_bytes));
    }
    if (tail != 0) std::memcpy(out + kind.ours->bytes, in + kind.file_bytes, tail);
  }
  image.bytes = words.size() * kWordBytes;
  image.words = std::move(words);
  return whole;
}

}  // namespace gpumemtrace::trace
