// SPDX-License-Identifier: Apache-2.0
// The schema: the fields of each kind of record. Packer, reader, `dump` and
// docs/internals/records.txt use it. It is made of trace/every_record.def. It is checked at compile
// time that every byte of a record's struct belongs to exactly one field.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "trace/records.hpp"

namespace gpumemtrace::trace {

struct KindInfo {
  RecordKind kind = RecordKind::kNone;
  std::string_view name;
  std::uint16_t bytes = 0;  // bytes of the struct, without tail
  bool has_tail = false;    // text or bytes follow the struct, padded with zeros to a word
  std::span<const Field> fields;
};

namespace schema {

// The schema of each record: kind, name, fields, tail.
template <class Record>
struct Of;

// `kind` and `words` of a record are structure, not columns: the packer writes them separately.
#define GPUMEMTRACE_NESTED_FIELD(name, path, encoding) \
  Field{name, offsetof(Record, path), sizeof(Record{}.path), Encoding::encoding},
#define GPUMEMTRACE_HEADER_FIELDS(path)                   \
  GPUMEMTRACE_NESTED_FIELD("api", path.api, kPlain)       \
  GPUMEMTRACE_NESTED_FIELD("result", path.result, kPlain) \
  GPUMEMTRACE_NESTED_FIELD("flags", path.flags, kPlain)   \
  GPUMEMTRACE_NESTED_FIELD("time", path.time, kTime)
#define GPUMEMTRACE_BEGIN(Type, kind_name, tail)             \
  template <>                                                \
  struct Of<Type> {                                          \
    using Record = Type;                                     \
    static constexpr RecordKind kKind = RecordKind::k##Type; \
    static constexpr std::string_view kName = #kind_name;    \
    static constexpr bool kHasTail = tail;                   \
    static constexpr Field kFields[] = {
#define GPUMEMTRACE_RECORD(Type, number, name, tail) \
  GPUMEMTRACE_BEGIN(Type, name, tail) GPUMEMTRACE_HEADER_FIELDS(record)
#define GPUMEMTRACE_CALL_RECORD(Type, number, name, tail) \
  GPUMEMTRACE_BEGIN(Type, name, tail)                     \
  GPUMEMTRACE_HEADER_FIELDS(call.record)                  \
  GPUMEMTRACE_NESTED_FIELD("end", call.end, kAfterStart)  \
  GPUMEMTRACE_NESTED_FIELD("caller", call.caller, kDelta) \
  GPUMEMTRACE_NESTED_FIELD("stack", call.stack, kDelta)   \
  GPUMEMTRACE_NESTED_FIELD("context", call.context, kPlain)
#define GPUMEMTRACE_FIELD(type, name, initial, encoding) \
  GPUMEMTRACE_NESTED_FIELD(#name, name, encoding)
// clang-format off
#define GPUMEMTRACE_END }; };
// clang-format on
#include "trace/every_record.def"
#undef GPUMEMTRACE_BEGIN
#undef GPUMEMTRACE_HEADER_FIELDS
#undef GPUMEMTRACE_NESTED_FIELD

// These functions are never defined: the name of the one that is called during compilation is the
// error message.
void a_field_is_missing_doubled_or_out_of_order();
void the_last_bytes_of_the_record_are_in_no_field();
void two_fields_of_one_name();
void two_rows_for_one_kind();
void more_fields_than_the_limit();

// Describes a record's struct; checks that its fields cover every byte but `kind` and `words`, in
// order and without a hole.
template <class Record>
consteval KindInfo describe() {
  static_assert(std::is_trivially_copyable_v<Record> && std::is_standard_layout_v<Record>);
  static_assert(sizeof(Record) % kWordBytes == 0);
  const std::span<const Field> fields = Of<Record>::kFields;
  std::size_t expected_offset = 2;
  for (const Field& field : fields) {
    if (field.offset != expected_offset) a_field_is_missing_doubled_or_out_of_order();
    expected_offset += field.bytes;
    for (const Field* other = &field + 1; other != fields.data() + fields.size(); ++other) {
      if (other->name == field.name) two_fields_of_one_name();
    }
  }
  if (expected_offset != sizeof(Record)) the_last_bytes_of_the_record_are_in_no_field();
  return {Of<Record>::kKind, Of<Record>::kName, sizeof(Record), Of<Record>::kHasTail, fields};
}

}  // namespace schema

inline constexpr std::array kKinds = {
#define GPUMEMTRACE_RECORD(Type, number, name, tail) schema::describe<Type>(),
#include "trace/every_record.def"
};

inline constexpr std::size_t kMaxFields = 40;

namespace schema {
consteval std::array<std::int8_t, 256> index_kinds() {
  std::array<std::int8_t, 256> index{};
  for (std::int8_t& entry : index) entry = -1;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    std::int8_t& entry = index[static_cast<std::size_t>(kKinds[i].kind)];
    if (entry != -1) two_rows_for_one_kind();
    if (kKinds[i].fields.size() > kMaxFields) more_fields_than_the_limit();
    entry = static_cast<std::int8_t>(i);
  }
  return index;
}
inline constexpr std::array<std::int8_t, 256> kIndex = index_kinds();
}  // namespace schema

// The number of the kind of a record's struct.
template <class Record>
consteval RecordKind kind_of() {
  return schema::Of<Record>::kKind;
}

// The record as its own struct; the record's kind must be that of the struct.
template <class Record>
[[nodiscard]] const Record& as(const RecordHeader& header) noexcept {
  return reinterpret_cast<const Record&>(header);
}

// Calls visit(record) with the record as the struct of its kind, or with the header alone if this
// version does not know the kind.
template <class Visit>
decltype(auto) dispatch(const RecordHeader& record, Visit&& visit) {
  switch (record.kind) {
#define GPUMEMTRACE_RECORD(Type, number, name, tail) \
  case RecordKind::k##Type:                          \
    return visit(as<Type>(record));
#include "trace/every_record.def"
    case RecordKind::kNone:
      break;
  }
  return visit(record);
}

// The description of a kind; nullptr if this version does not know the kind.
constexpr const KindInfo* find_kind(RecordKind kind) {
  const std::int8_t index = schema::kIndex[static_cast<std::size_t>(kind)];
  return index < 0 ? nullptr : &kKinds[static_cast<std::size_t>(index)];
}

// True for kinds of records whose struct begins with a CallHeader.
[[nodiscard]] constexpr bool is_call(RecordKind kind) {
  return kind >= RecordKind::kAllocation && kind <= RecordKind::kOtherCall;
}

// The value of a field of a record in memory as an unsigned number, zero-extended. Relies on
// little-endian processors.
inline std::uint64_t load_field(const std::byte* record, std::uint16_t offset,
                                std::uint8_t bytes) noexcept {
  std::uint64_t value = 0;
  switch (bytes) {
    case 1:
      __builtin_memcpy(&value, record + offset, 1);
      break;
    case 2:
      __builtin_memcpy(&value, record + offset, 2);
      break;
    case 4:
      __builtin_memcpy(&value, record + offset, 4);
      break;
    default:
      __builtin_memcpy(&value, record + offset, 8);
  }
  return value;
}

inline void store_field(std::byte* record, std::uint16_t offset, std::uint8_t bytes,
                        std::uint64_t value) noexcept {
  switch (bytes) {
    case 1:
      __builtin_memcpy(record + offset, &value, 1);
      break;
    case 2:
      __builtin_memcpy(record + offset, &value, 2);
      break;
    case 4:
      __builtin_memcpy(record + offset, &value, 4);
      break;
    default:
      __builtin_memcpy(record + offset, &value, 8);
  }
}

}  // namespace gpumemtrace::trace
