// SPDX-License-Identifier: Apache-2.0
// One file of Apache Parquet, https://parquet.apache.org/docs/file-format/
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tools/export/job_tables.hpp"

namespace gpumemtrace::tools {

class ThriftWriter;

// - Holds the rows of one row group at a time; a full one is written and forgotten.
// - Between two row groups the file is closed, so that any number can be written side by side.
// - Throws Failure if the file cannot be written. Without finish() it is no Parquet file.
// Columns are optional INT64 and UTF-8 BYTE_ARRAY in plain encoding, a page each, compressed by
// zstd, which every reader supports. An INT64 has no sign bit to spare: addresses are two's
// complement.
class ParquetFile {
 public:
  // `path` does not exist yet; its folder does. `columns` outlive this object.
  ParquetFile(std::filesystem::path path, std::span<const Column> columns);

  void add(const std::vector<Value>& row);
  void finish();

 private:
  struct ColumnBuffer {
    std::string values;            // in plain encoding
    std::vector<bool> is_present;  // a row each
  };
  struct Chunk {
    std::uint64_t offset = 0;
    std::uint64_t stored_bytes = 0;  // with the page's header
    std::uint64_t plain_bytes = 0;
  };
  struct RowGroup {
    std::uint64_t rows = 0;
    std::vector<Chunk> chunks;  // a column each
  };

  void write_row_group();
  void append(const std::string& bytes);
  [[nodiscard]] std::string footer() const;
  void describe(ThriftWriter& file, const RowGroup& group) const;

  std::filesystem::path path_;
  std::span<const Column> columns_;
  std::vector<ColumnBuffer> buffers_;
  std::uint64_t buffered_rows_ = 0;
  std::size_t buffered_bytes_ = 0;
  std::vector<RowGroup> groups_;
  std::uint64_t offset_ = 0;
};

}  // namespace gpumemtrace::tools
