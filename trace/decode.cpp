// SPDX-License-Identifier: Apache-2.0
#include "trace/decode.hpp"

#include "trace/columns.hpp"

namespace gpumemtrace::trace {
namespace {

// The index of a kind of records in kKinds; kKinds.size() for an unknown kind.
std::size_t index_of(std::byte kind) noexcept {
  const std::int8_t index = schema::kIndex[static_cast<std::size_t>(kind)];
  return index < 0 ? kKinds.size() : static_cast<std::size_t>(index);
}

// Finds every column of the payload; sets `kinds` to the column of kinds.
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

// Sets begin_of_kind, the begin of each kind in arrays that are grouped by kind; false for an
// unknown kind.
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

std::uint32_t count_of(std::size_t k, const DecodeScratch& scratch) noexcept {
  return scratch.begin_of_kind[k + 1] - scratch.begin_of_kind[k];
}

// Finds the offset of every record in the image. False if the records do not exactly fill it.
bool lay_out(std::span<const std::byte> kinds, std::size_t image_bytes,
             DecodeScratch& scratch) noexcept {
  std::uint32_t next[kKinds.size()];
  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    next[k] = scratch.begin_of_kind[k];
    const std::span<std::uint64_t> words(scratch.tail_words + next[k], count_of(k, scratch));
    if (kKinds[k].has_tail && !decode_varints(scratch.tail_word_columns[k], words)) return false;
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::size_t k = index_of(kinds[i]);
    const KindInfo& info = kKinds[k];
    const std::uint32_t slot = next[k]++;
    const std::uint64_t tail_words = info.has_tail ? scratch.tail_words[slot] : 0;
    if (tail_words > kMaxRecordWords - info.bytes / kWordBytes) return false;
    const std::size_t bytes = info.bytes + static_cast<std::size_t>(tail_words) * kWordBytes;
    if (bytes > image_bytes - offset) return false;
    scratch.offset[i] = scratch.grouped[slot] = static_cast<std::uint32_t>(offset);
    offset += bytes;
  }
  return offset == image_bytes;
}

// Decodes all records of kind k into the image.
bool fill(std::size_t k, std::byte* image, const DecodeScratch& scratch) noexcept {
  const KindInfo& info = kKinds[k];
  const std::uint32_t begin = scratch.begin_of_kind[k];
  const std::span<const std::uint32_t> offsets(scratch.grouped + begin, count_of(k, scratch));
  if (offsets.empty()) return true;
  const auto column_of = [&](std::size_t field) noexcept -> std::optional<Column> {
    return scratch.columns[k][field];
  };
  return fill_records(static_cast<std::uint8_t>(info.kind), info.bytes, info.fields, column_of,
                      offsets, image) &&
         (!info.has_tail || fill_tails(scratch.tail_bytes[k], scratch.tail_words + begin,
                                       info.bytes, offsets, image));
}

}  // namespace

bool decode(std::span<const std::byte> columns, std::span<std::byte> image,
            DecodeScratch& scratch) noexcept {
  std::span<const std::byte> kinds;
  if (!index_columns(columns, scratch, kinds) || !group_kinds(kinds, scratch) ||
      !lay_out(kinds, image.size(), scratch)) {
    return false;
  }
  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    if (!fill(k, image.data(), scratch)) return false;
  }
  sum_times(image.data(), std::span<const std::uint32_t>(scratch.offset, kinds.size()),
            [](const RecordHeader&) {});
  return true;
}

}  // namespace gpumemtrace::trace
