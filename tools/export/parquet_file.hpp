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

// - Holds the rows of one row group in memory; a full group is written and freed.
// - The file is closed between two row groups, so that any number of files can be written at a
//   time.
// - Throws Failure if the file cannot be written. Without finish() the file is not valid.
// Columns are optional INT64 and UTF-8 BYTE_ARRAY in plain encoding, one page for each, compressed
// by zstd, which every reader supports. Unsigned values such as addresses are stored in INT64 as
// two's complement.
class ParquetFile {
 public:
  // `path` does not exist yet; its folder does. `columns` outlive this object.
  ParquetFile(std::filesystem::path path, std::span<const Column> columns);

  void add(const std::vector<Value>& row);
  void finish();

 private:
  struct ColumnBuffer {
    std::string values;            // values of a column in plain encoding
    std::vector<bool> is_present;  // true for each row that has a value
  };
  struct Chunk {
    std::uint64_t offset = 0;
    std::uint64_t stored_bytes = 0;  // compressed page with its header
    std::uint64_t plain_bytes = 0;
  };
  struct RowGroup {
    std::uint64_t rows = 0;
    std::vector<Chunk> chunks;  // one for each column
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
