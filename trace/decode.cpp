// SPDX-License-Identifier: Apache-2.0
#include "trace/decode.hpp"

#include "trace/columns.hpp"

namespace gpumemtrace::trace {
namespace {

std::size_t index_of(std::byte kind) noexcept {
  const std::int8_t index = schema::kIndex[static_cast<std::size_t>(kind)];
  return index < 0 ? kKinds.size() : static_cast<std::size_t>(index);
}

// Finds every column; `kinds` becomes that of the kinds.
bool index_columns(std::span<const std::byte> payload, DecodeScratch& scratch,
                   std::span<const std::byte>& kinds) noexcept {
  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    for (auto& column : scratch.columns[k]) column = {};
    scratch.tail_word_columns[k] = scratch.tail_bytes[k] = {};
  }
  while (!payload.empty()) {
    ColumnHeader header;
    Column column;
    if (!take_column(payload, header, column)) return false;
    if (header.kind == 0) {
      kinds = column.bytes;
      continue;
    }
    const std::size_t k = index_of(static_cast<std::byte>(header.kind));
    if (k == kKinds.size()) return false;
    if (header.field == kTailWordsColumn) {
      scratch.tail_word_columns[k] = column.bytes;
    } else if (header.field == kTailBytesColumn) {
      scratch.tail_bytes[k] = column.bytes;
    } else if (header.field < kKinds[k].fields.size()) {
      scratch.columns[k][header.field] = column;
    } else {
      return false;
    }
  }
  return !kinds.empty() && kinds.size() <= DecodeScratch::kMaxRecords;
}

bool group_kinds(std::span<const std::byte> kinds, DecodeScratch& scratch) noexcept {
  for (std::uint32_t& begin : scratch.begin_of_kind) begin = 0;
  for (const std::byte kind : kinds) {
    const std::size_t k = index_of(kind);
    if (k == kKinds.size()) return false;
    ++scratch.begin_of_kind[k + 1];
  }
  for (std::size_t k = 1; k <= kKinds.size(); ++k) {
    scratch.begin_of_kind[k] += scratch.begin_of_kind[k - 1];
  }
  return true;
}

// Gives every record its place in the image, with kind, length and tail filled in.
bool lay_out(std::span<const std::byte> kinds, std::span<std::byte> image,
             DecodeScratch& scratch) noexcept {
  std::uint32_t next[kKinds.size()];
  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    next[k] = scratch.begin_of_kind[k];
    const std::uint32_t count = scratch.begin_of_kind[k + 1] - next[k];
    const std::span<std::uint64_t> words(scratch.tail_words + next[k], count);
    if (kKinds[k].has_tail && !decode_varints(scratch.tail_word_columns[k], words)) return false;
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::size_t k = index_of(kinds[i]);
    const KindInfo& info = kKinds[k];
    const std::uint32_t slot = next[k]++;
    const std::uint64_t tail_words = info.has_tail ? scratch.tail_words[slot] : 0;
    if (tail_words > 255 - info.bytes / kWordBytes) return false;
    const std::size_t tail = static_cast<std::size_t>(tail_words) * kWordBytes;
    const std::size_t bytes = info.bytes + tail;
    if (bytes > image.size() - offset || tail > scratch.tail_bytes[k].size()) return false;
    std::byte* record = image.data() + offset;
    record[0] = kinds[i];
    record[1] = static_cast<std::byte>(bytes / kWordBytes);
    if (tail != 0) __builtin_memcpy(record + info.bytes, scratch.tail_bytes[k].data(), tail);
    scratch.tail_bytes[k] = scratch.tail_bytes[k].subspan(tail);
    scratch.offset[i] = scratch.grouped[slot] = static_cast<std::uint32_t>(offset);
    offset += bytes;
  }
  return offset == image.size();
}

bool fill_field(const Column& column, const Field& field, std::span<const std::uint32_t> offsets,
                std::byte* image) noexcept {
  std::byte* const at = image + field.offset;
  if (column.form == ColumnForm::kEach) {
    return decode_field(field.encoding, column.bytes, offsets, at, field.bytes);
  }
  if (!decode_field(field.encoding, column.bytes, offsets.first(1), at, field.bytes)) return false;
  const std::uint64_t value = load_field(image + offsets[0], field.offset, field.bytes);
  for (const std::uint32_t offset : offsets.subspan(1)) {
    store_field(image + offset, field.offset, field.bytes, value);
  }
  return true;
}

}  // namespace

bool decode(std::span<const std::byte> columns, std::span<std::byte> image,
            DecodeScratch& scratch) noexcept {
  std::span<const std::byte> kinds;
  if (!index_columns(columns, scratch, kinds) || !group_kinds(kinds, scratch) ||
      !lay_out(kinds, image, scratch)) {
    return false;
  }
  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    const std::uint32_t begin = scratch.begin_of_kind[k];
    const std::uint32_t count = scratch.begin_of_kind[k + 1] - begin;
    if (count == 0) continue;
    const std::span<const std::uint32_t> offsets(scratch.grouped + begin, count);
    for (std::size_t f = 0; f < kKinds[k].fields.size(); ++f) {
      if (!fill_field(scratch.columns[k][f], kKinds[k].fields[f], offsets, image.data())) {
        return false;
      }
    }
  }
  sum_times(image.data(), std::span<const std::uint32_t>(scratch.offset, kinds.size()),
            [](const RecordHeader&) {});
  return true;
}

}  // namespace gpumemtrace::trace
