// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <memory>
#include <new>
#include <variant>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"
#include "tools/export/job_tables.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kViews = R"SQL(
CREATE INDEX allocation_by_start ON allocation(start_ns);
CREATE VIEW ENUM_CUDA_DEV_MEM_EVENT_OPER AS
  SELECT 0 AS id, 'CUDA_MEM_OPERATION_ALLOC' AS name, 'Allocation' AS label
  UNION ALL SELECT 1, 'CUDA_MEM_OPERATION_FREE', 'Deallocation';
CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS
  WITH driver AS (
    SELECT a.*, p.pid * 0x1000000 AS globalPid, d.ordinal AS deviceId FROM allocation a
    JOIN process p ON p.id = a.process
    LEFT JOIN device_of_process d ON d.process = a.process AND d.device = a.device
    WHERE a.level IN ('driver', 'pool', 'managed', 'host'))
  SELECT start_ns AS start, globalPid, deviceId, address, bytes,
    CASE level WHEN 'managed' THEN 4 WHEN 'host' THEN 1 ELSE 2 END AS memKind,
    0 AS memoryOperationType FROM driver
  UNION ALL
  SELECT end_ns, globalPid, deviceId, address, bytes,
    CASE level WHEN 'managed' THEN 4 WHEN 'host' THEN 1 ELSE 2 END, 1
    FROM driver WHERE end_ns IS NOT NULL;
)SQL";

class Database {
 public:
  Database() {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open(":memory:", &opened);
    database_.reset(opened);
    check(result);
  }

  void run(const char* statements) {
    check(sqlite3_exec(database_.get(), statements, nullptr, nullptr, nullptr));
  }
  [[nodiscard]] sqlite3* get() const { return database_.get(); }
  void check(int result) const {
    const bool is_fine = result == SQLITE_OK || result == SQLITE_DONE || result == SQLITE_ROW;
    if (!is_fine) throw Failure(format_text("SQLite: {}", sqlite3_errmsg(database_.get())));
  }

  // The bytes of the database's file.
  [[nodiscard]] std::string content() const {
    sqlite3_int64 bytes = 0;
    unsigned char* const data = sqlite3_serialize(database_.get(), "main", &bytes, 0);
    if (data == nullptr) throw std::bad_alloc();
    std::string content(data, data + bytes);
    sqlite3_free(data);
    return content;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

// The SQL that creates a table: "CREATE TABLE peak(process TEXT, bytes INTEGER)".
std::string creation_of(const Table& table) {
  std::string columns;
  for (const Column& column : table.columns) {
    columns += format_text("{}{} {}", columns.empty() ? "" : ", ", column.name,
                           column.type == ColumnType::kText ? "TEXT" : "INTEGER");
  }
  if (table.key.empty()) return format_text("CREATE TABLE {}({})", table.name, columns);
  // A table whose key has several columns is stored in the order of that key.
  const bool has_several = table.key.find(',') != std::string_view::npos;
  return format_text("CREATE TABLE {}({}, PRIMARY KEY({})){}", table.name, columns, table.key,
                     has_several ? " WITHOUT ROWID" : "");
}

class DatabaseSink : public TableSink {
 public:
  explicit DatabaseSink(Database& database) : database_(database) {}

  [[nodiscard]] std::string format() const override { return "gpumemtrace-sqlite"; }

  void begin(const Table& table) override {
    database_.run(creation_of(table).c_str());
    std::string text = format_text("INSERT INTO {} VALUES (?", table.name);
    for (std::size_t i = 1; i < table.columns.size(); ++i) text += ", ?";
    text += ")";
    sqlite3_stmt* prepared = nullptr;
    database_.check(sqlite3_prepare_v2(database_.get(), text.c_str(), -1, &prepared, nullptr));
    insert_.reset(prepared);
  }

  void add(const std::vector<Value>& row) override {
    int column = 0;
    for (const Value& value : row) bind(++column, value);
    database_.check(sqlite3_step(insert_.get()));
    database_.check(sqlite3_reset(insert_.get()));
  }

  void end() override { insert_.reset(); }

 private:
  // Binds a value to a column. SQLite's integers are signed: an address above 2^63 becomes
  // negative, as two's complement.
  void bind(int column, const Value& value) {
    if (const auto* const number = std::get_if<std::uint64_t>(&value)) {
      database_.check(
          sqlite3_bind_int64(insert_.get(), column, static_cast<sqlite3_int64>(*number)));
    } else if (const auto* const text = std::get_if<std::string>(&value)) {
      database_.check(sqlite3_bind_text(insert_.get(), column, text->data(),
                                        static_cast<int>(text->size()), SQLITE_STATIC));
    } else {
      database_.check(sqlite3_bind_null(insert_.get(), column));
    }
  }

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> insert_;
};

}  // namespace

std::string sqlite_database(const analyzer::rows::Report& report, std::string_view selection) {
  Database database;
  database.run("BEGIN");
  {
    DatabaseSink sink(database);
    write_tables(report, selection, sink);
  }
  database.run(kViews);
  database.run("COMMIT");
  return database.content();
}

}  // namespace gpumemtrace::tools
