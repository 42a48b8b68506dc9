// SPDX-License-Identifier: Apache-2.0
// Checks of what the reader promises about everything that it hands out, however broken the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "trace/checksum.hpp"
#include "trace/reader.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tests {

// Ends the process if a promise is broken, which a fuzzer notices.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "The reader broke its promise: %s\n", what);
  std::abort();
}

// This sum is volatile, so that the reads of records are not optimized away.
inline volatile std::uint32_t record_checksum = 0;

// Checks that a record is of a kind that this version knows and as long as it says; reads all of
// its bytes.
inline void check_record(const trace::RecordHeader& record) {
  const trace::KindInfo* info = trace::find_kind(record.kind);
  require(info != nullptr, "only known kinds are handed out");
  const std::size_t bytes = record.words * trace::kWordBytes;
  require(bytes >= info->bytes, "a record has the fields of its kind");
  require(bytes == info->bytes || info->has_tail, "only kinds with a tail are longer");
  const std::string_view tail = trace::tail_of(record);
  require(tail.size() <= bytes - info->bytes, "the tail lies in its record");
  record_checksum = trace::crc32c(&record, bytes);
  if (record.kind == trace::RecordKind::kStack) {
    const auto& stack = trace::as<trace::Stack>(record);
    const auto python = std::as_bytes(trace::python_frames_of(stack));
    const auto native = std::as_bytes(trace::native_frames_of(stack));
    require(python.size() + native.size() <= bytes - info->bytes, "frames lie in their record");
    record_checksum = trace::crc32c(native.data(), native.size());
  }
  if (record.kind == trace::RecordKind::kCode) {
    const auto text = trace::bytes_of(trace::as<trace::Code>(record));
    require(text.size() <= bytes - info->bytes, "a text lies in its record");
  }
}

}  // namespace gpumemtrace::tests
