// SPDX-License-Identifier: Apache-2.0
// The job as tables, for databases of every kind. docs/exports.md has their columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

enum class ColumnType : std::uint8_t { kInteger, kText };

struct Column {
  std::string_view name;
  ColumnType type = ColumnType::kInteger;
};

struct Table {
  std::string_view name;
  std::span<const Column> columns;
  std::string_view key;  // the columns that identify a row; empty: none do
};

// All tables, in the order in which they are written.
[[nodiscard]] std::span<const Table> job_tables();

// A value of a column; std::monostate stands for an unknown one. Text is valid UTF-8.
using Value = std::variant<std::monostate, std::uint64_t, std::string>;

// A writer of tables in one format. It gets the tables one after the other, each with its rows; in
// the table of allocations, the rows of one process are consecutive.
class TableSink {
 public:
  TableSink() = default;
  TableSink(const TableSink&) = delete;
  TableSink& operator=(const TableSink&) = delete;
  virtual ~TableSink() = default;

  // The name of the format in the table "meta".
  [[nodiscard]] virtual std::string format() const = 0;
  virtual void begin(const Table& table) = 0;
  // Writes a row of the last begun table: one value for each column.
  virtual void add(const std::vector<Value>& row) = 0;
  virtual void end() = 0;
};

// Passes all tables to `sink`. Times are nanoseconds since the start of the job, sizes bytes.
// `report` must have its allocations[]. `selection` is the part of the job that `report` has;
// empty: all.
void write_tables(const analyzer::rows::Report& report, std::string_view selection,
                  TableSink& sink);

}  // namespace gpumemtrace::tools
