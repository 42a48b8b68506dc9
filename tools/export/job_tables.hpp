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
  std::string_view key;  // names of the columns that tell rows apart; empty: none do
};

// All tables, in the order in which they are written.
[[nodiscard]] std::span<const Table> job_tables();

// nullopt if it is not known. Text is valid UTF-8.
using Value = std::variant<std::monostate, std::uint64_t, std::string>;

// Takes the tables one after the other, each with its rows; rows of one process follow each other
// in the table of allocations.
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

// Times are nanoseconds since the start of the job, sizes bytes. `report` has its allocations.
// `selection` is the part of the job that this is; empty: all of it.
void write_tables(const analyzer::rows::Report& report, std::string_view selection,
                  TableSink& sink);

}  // namespace gpumemtrace::tools
