// SPDX-License-Identifier: Apache-2.0
#include "trace/pack.hpp"

#include <cstddef>
#include <type_traits>

#include "trace/varint.hpp"

namespace gpumemtrace::trace {
namespace {

// Appends columns to a fixed buffer; `failed_` is set once a column did not fit.
class ColumnWriter {
 public:
  explicit ColumnWriter(std::span<std::byte> out) noexcept : out_(out) {}

  void begin(std::uint8_t kind, std::uint8_t field, ColumnForm form = ColumnForm::kEach) noexcept {
    header_ = position_;
    kind_ = kind;
    field_ = field;
    form_ = form;
    if (out_.size() - position_ < sizeof(ColumnHeader)) failed_ = true;
    if (!failed_) position_ += sizeof(ColumnHeader);
  }

  // Calls put(out), which writes at most `count` varints and returns the position after them.
  template <class Put>
  void varints(std::size_t count, Put&& put) noexcept {
    if (failed_ || (out_.size() - position_) / kMaxVarintBytes < count) {
      failed_ = true;
      return;
    }
    position_ = static_cast<std::size_t>(put(out_.data() + position_) - out_.data());
  }

  void raw(const std::byte* data, std::size_t bytes) noexcept {
    if (failed_ || out_.size() - position_ < bytes) {
      failed_ = true;
      return;
    }
    __builtin_memcpy(out_.data() + position_, data, bytes);
    position_ += bytes;
  }

  void end() noexcept {
    if (failed_) return;
    const std::size_t bytes = position_ - header_ - sizeof(ColumnHeader);
    const ColumnHeader header{kind_, field_, form_, 0, static_cast<std::uint32_t>(bytes)};
    __builtin_memcpy(out_.data() + header_, &header, sizeof header);
  }

  std::size_t size() const noexcept { return failed_ ? 0 : position_; }

 private:
  std::span<std::byte> out_;
  std::size_t position_ = 0;
  std::size_t header_ = 0;
  std::uint8_t kind_ = 0;
  std::uint8_t field_ = 0;
  ColumnForm form_ = ColumnForm::kEach;
  bool failed_ = false;
};

RecordHeader header_at(std::span<const std::byte> image, std::size_t offset) noexcept {
  RecordHeader header;
  __builtin_memcpy(&header, image.data() + offset, sizeof header);
  return header;
}

// Fills scratch.offset with the offset of each record; returns the number of records, or -1 if the
// image is malformed.
std::ptrdiff_t index_records(std::span<const std::byte> image, PackScratch& scratch) noexcept {
  std::size_t count = 0;
  std::size_t offset = 0;
  while (offset < image.size()) {
    if (image.size() - offset < sizeof(RecordHeader)) return -1;
    const RecordHeader header = header_at(image, offset);
    const KindInfo* info = find_kind(header.kind);
    const std::size_t bytes = header.words * kWordBytes;
    if (info == nullptr || bytes < info->bytes || bytes > image.size() - offset) return -1;
    if (bytes != info->bytes && !info->has_tail) return -1;
    if (count == PackScratch::kMaxRecords) return -1;
    scratch.offset[count++] = static_cast<std::uint32_t>(offset);
    offset += bytes;
  }
  return static_cast<std::ptrdiff_t>(count);
}

// Packs one field of all records of one kind. The field's encoding, offset and width are chosen
// once, not for each record.
class FieldColumn {
 public:
  FieldColumn(std::span<const std::byte> image, const PackScratch& scratch,
              std::span<const std::uint32_t> members, const Field& field) noexcept
      : image_(image.data()), offset_(scratch.offset), members_(members), field_(field) {}

  void write(ColumnWriter& columns, std::uint8_t kind, std::uint8_t number) const noexcept {
    switch (field_.bytes) {
      case 1:
        return write_of<std::uint8_t>(columns, kind, number);
      case 2:
        return write_of<std::uint16_t>(columns, kind, number);
      case 4:
        return write_of<std::uint32_t>(columns, kind, number);
      default:
        return write_of<std::uint64_t>(columns, kind, number);
    }
  }

 private:
  template <class Unsigned>
  void write_of(ColumnWriter& columns, std::uint8_t kind, std::uint8_t number) const noexcept {
    switch (field_.encoding) {
      case Encoding::kPlain:
        return write_as<Unsigned, Encoding::kPlain>(columns, kind, number);
      case Encoding::kSigned:
        return write_as<Unsigned, Encoding::kSigned>(columns, kind, number);
      case Encoding::kDelta:
        return write_as<Unsigned, Encoding::kDelta>(columns, kind, number);
      case Encoding::kTime:
        return write_as<Unsigned, Encoding::kTime>(columns, kind, number);
      case Encoding::kAfterStart:
        return write_as<Unsigned, Encoding::kAfterStart>(columns, kind, number);
    }
  }

  // Writes the column: one varint for each record, or only the first if all_same().
  template <class Unsigned, Encoding kEncoding>
  void write_as(ColumnWriter& columns, std::uint8_t kind, std::uint8_t number) const noexcept {
    const bool same = all_same<Unsigned, kEncoding>();
    const std::span<const std::uint32_t> written = same ? members_.first(1) : members_;
    columns.begin(kind, number, same ? ColumnForm::kSame : ColumnForm::kEach);
    columns.varints(written.size(), [&](std::byte* out) noexcept {
      std::uint64_t previous = 0;
      for (const std::uint32_t i : written) {
        const std::uint64_t value = value_of<Unsigned, kEncoding>(i);
        if constexpr (kEncoding == Encoding::kPlain || kEncoding == Encoding::kAfterStart) {
          out = put_varint(out, value);
        } else {
          out = put_varint(out, zigzag(static_cast<std::int64_t>(value - previous)));
          if constexpr (kEncoding == Encoding::kDelta) previous = value;
        }
      }
      return out;
    });
    columns.end();
  }

  template <class Unsigned, Encoding kEncoding>
  bool all_same() const noexcept {
    const std::uint64_t first = value_of<Unsigned, kEncoding>(members_.front());
    for (const std::uint32_t i : members_.subspan(1)) {
      if (value_of<Unsigned, kEncoding>(i) != first) return false;
    }
    return true;
  }

  // The field's value in record i, sign-extended if it is signed; for times the difference that the
  // column holds.
  template <class Unsigned, Encoding kEncoding>
  std::uint64_t value_of(std::uint32_t i) const noexcept {
    Unsigned value;
    __builtin_memcpy(&value, image_ + offset_[i] + field_.offset, sizeof value);
    if constexpr (kEncoding == Encoding::kSigned) {
      using Signed = std::make_signed_t<Unsigned>;
      return static_cast<std::uint64_t>(std::int64_t{static_cast<Signed>(value)});
    } else if constexpr (kEncoding == Encoding::kTime) {
      return value - (i == 0 ? 0 : time_of(i - 1));
    } else if constexpr (kEncoding == Encoding::kAfterStart) {
      return value == 0 ? 0 : 1 + zigzag(static_cast<std::int64_t>(value - time_of(i)));
    } else {
      return value;
    }
  }

  std::uint64_t time_of(std::uint32_t i) const noexcept {
    std::uint64_t time;
    __builtin_memcpy(&time, image_ + offset_[i] + offsetof(RecordHeader, time), sizeof time);
    return time;
  }

  const std::byte* image_;
  const std::uint32_t* offset_;  // offset of each record in the image
  std::span<const std::uint32_t> members_;
  const Field& field_;
};

}  // namespace

PackResult pack(std::span<const std::byte> image, std::span<std::byte> out,
                PackScratch& scratch) noexcept {
  const std::ptrdiff_t indexed = index_records(image, scratch);
  if (indexed <= 0) return {};
  const auto count = static_cast<std::uint32_t>(indexed);

  std::uint32_t begin_of_kind[kKinds.size() + 1] = {};
  ColumnWriter columns(out);
  columns.begin(0, kKindsColumn);
  for (std::uint32_t i = 0; i < count; ++i) {
    const RecordKind kind = header_at(image, scratch.offset[i]).kind;
    columns.raw(reinterpret_cast<const std::byte*>(&kind), 1);
    ++begin_of_kind[static_cast<std::size_t>(schema::kIndex[static_cast<std::size_t>(kind)]) + 1];
  }
  columns.end();

  for (std::size_t k = 1; k <= kKinds.size(); ++k) begin_of_kind[k] += begin_of_kind[k - 1];
  std::uint32_t next_of_kind[kKinds.size()];
  for (std::size_t k = 0; k < kKinds.size(); ++k) next_of_kind[k] = begin_of_kind[k];
  for (std::uint32_t i = 0; i < count; ++i) {
    const RecordKind kind = header_at(image, scratch.offset[i]).kind;
    const std::size_t k = static_cast<std::uint8_t>(schema::kIndex[static_cast<std::size_t>(kind)]);
    scratch.grouped[next_of_kind[k]++] = i;
  }

  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    const KindInfo& info = kKinds[k];
    const std::span<const std::uint32_t> members(scratch.grouped + begin_of_kind[k],
                                                 begin_of_kind[k + 1] - begin_of_kind[k]);
    if (members.empty()) continue;
    const auto kind = static_cast<std::uint8_t>(info.kind);
    for (std::size_t f = 0; f < info.fields.size(); ++f) {
      FieldColumn(image, scratch, members, info.fields[f])
          .write(columns, kind, static_cast<std::uint8_t>(f));
    }
    if (!info.has_tail) continue;
    columns.begin(kind, kTailWordsColumn);
    columns.varints(members.size(), [&](std::byte* end) noexcept {
      for (const std::uint32_t i : members) {
        end = put_varint(end, header_at(image, scratch.offset[i]).words - info.bytes / kWordBytes);
      }
      return end;
    });
    columns.end();
    columns.begin(kind, kTailBytesColumn);
    for (const std::uint32_t i : members) {
      const std::size_t bytes = header_at(image, scratch.offset[i]).words * kWordBytes;
      columns.raw(image.data() + scratch.offset[i] + info.bytes, bytes - info.bytes);
    }
    columns.end();
  }
  return {columns.size(), count, header_at(image, scratch.offset[0]).time,
          header_at(image, scratch.offset[count - 1]).time};
}

// The schema's layout: number of kinds (1 byte); for each kind: number, has_tail, struct bytes (2),
// name, number of fields; for each field: offset (2), bytes, encoding, name. A name is a length
// byte and text.
std::size_t write_schema(std::span<std::byte> out) noexcept {
  std::size_t position = 0;
  const auto byte = [&](std::size_t value) noexcept {
    if (position < out.size()) out[position] = static_cast<std::byte>(value);
    ++position;
  };
  const auto text = [&](std::string_view value) noexcept {
    byte(value.size());
    for (const char c : value) byte(static_cast<unsigned char>(c));
  };
  byte(kKinds.size());
  for (const KindInfo& info : kKinds) {
    byte(static_cast<std::size_t>(info.kind));
    byte(info.has_tail ? 1 : 0);
    byte(info.bytes & 0xffu);
    byte(info.bytes >> 8);
    text(info.name);
    byte(info.fields.size());
    for (const Field& field : info.fields) {
      byte(field.offset & 0xffu);
      byte(static_cast<std::size_t>(field.offset) >> 8);
      byte(field.bytes);
      byte(static_cast<std::size_t>(field.encoding));
      text(field.name);
    }
  }
  return position <= out.size() ? position : 0;
}

}  // namespace gpumemtrace::trace
