// SPDX-License-Identifier: Apache-2.0
#include "tools/export/sqlite_database.hpp"

#include <sqlite3.h>

#include <map>
#include <memory>
#include <new>
#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::Report;

constexpr const char* kTables = R"SQL(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE process(id TEXT PRIMARY KEY, pid INTEGER, rank INTEGER, host TEXT, command TEXT,
  start_unix_ns INTEGER, complete_from_ns INTEGER);
CREATE TABLE device(id TEXT PRIMARY KEY, name TEXT, total_bytes INTEGER);
CREATE TABLE device_of_process(process TEXT, device TEXT, ordinal INTEGER);
CREATE TABLE allocation(id INTEGER PRIMARY KEY, process TEXT, device TEXT, level TEXT, kind TEXT,
  address INTEGER, bytes INTEGER, start_ns INTEGER, end_ns INTEGER, category TEXT, module TEXT,
  owner TEXT, stack INTEGER);
CREATE TABLE frame(stack INTEGER, depth INTEGER, function TEXT, file TEXT, line INTEGER,
  module TEXT, PRIMARY KEY(stack, depth)) WITHOUT ROWID;
CREATE TABLE peak(process TEXT, device TEXT, level TEXT, bytes INTEGER, time_ns INTEGER,
  step INTEGER);
CREATE TABLE step(process TEXT, number INTEGER, start_ns INTEGER, end_ns INTEGER,
  peak_bytes INTEGER, live_bytes_at_end INTEGER, allocations INTEGER);
CREATE TABLE range(process TEXT, name TEXT, start_ns INTEGER, end_ns INTEGER, peak_bytes INTEGER,
  live_bytes_at_end INTEGER, allocations INTEGER);
CREATE TABLE finding(rule TEXT, severity TEXT, process TEXT, device TEXT, title TEXT, detail TEXT,
  fix TEXT, bytes INTEGER, time_ns INTEGER, stack INTEGER);
)SQL";

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

  // The bytes of its file.
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

// Puts rows into a table, a call each.
class Insert {
 public:
  Insert(Database& database, const std::string& table, int columns) : database_(database) {
    std::string text = "INSERT INTO " + table + " VALUES (?";
    for (int i = 1; i < columns; ++i) text += ", ?";
    text += ")";
    sqlite3_stmt* prepared = nullptr;
    database.check(sqlite3_prepare_v2(database.get(), text.c_str(), -1, &prepared, nullptr));
    statement_.reset(prepared);
  }

  template <class... Values>
  void operator()(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    database_.check(sqlite3_step(statement_.get()));
    database_.check(sqlite3_reset(statement_.get()));
  }

 private:
  // An address of 64 bits becomes a negative number, which is its two's complement.
  void bind(int column, std::uint64_t value) {
    database_.check(
        sqlite3_bind_int64(statement_.get(), column, static_cast<sqlite3_int64>(value)));
  }
  void bind(int column, const std::string& value) {
    const std::string text = valid_utf8(value);
    database_.check(sqlite3_bind_text(statement_.get(), column, text.data(),
                                      static_cast<int>(text.size()), SQLITE_TRANSIENT));
  }
  void bind(int column, std::string_view value) {
    if (value.empty()) return bind_null(column);
    database_.check(sqlite3_bind_text(statement_.get(), column, value.data(),
                                      static_cast<int>(value.size()), SQLITE_STATIC));
  }
  template <class T>
  void bind(int column, const std::optional<T>& value) {
    if (value) {
      bind(column, *value);
    } else {
      bind_null(column);
    }
  }
  void bind_null(int column) { database_.check(sqlite3_bind_null(statement_.get(), column)); }

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class DatabaseWriter {
 public:
  explicit DatabaseWriter(const Report& report) : report_(report) {}

  [[nodiscard]] std::string write() {
    database_.run("BEGIN");
    database_.run(kTables);
    add_job();
    add_stacks();
    add_allocations();
    add_times();
    add_findings();
    database_.run(kViews);
    database_.run("COMMIT");
    return database_.content();
  }

 private:
  using OptionalNumber = analyzer::rows::OptionalNumber;
  using OptionalText = analyzer::rows::OptionalText;

  void add_job() {
    Insert meta(database_, "meta", 2);
    meta(std::string("format"), std::string("gpumemtrace-sqlite"));
    meta(std::string("version"), std::string("1"));
    meta(std::string("tool_version"), std::string(GPUMEMTRACE_VERSION));
    Insert insert(database_, "process", 7);
    for (const analyzer::rows::Process& row : report_.processes) {
      std::string command;
      for (const std::string& word : row.command) command += (command.empty() ? "" : " ") + word;
      insert(row.id, row.pid, row.rank, row.host, command, row.start_unix_ns,
             complete_from(row.id));
    }
    Insert device(database_, "device", 3);
    Insert seen_as(database_, "device_of_process", 3);
    for (const analyzer::rows::Device& row : report_.devices) {
      device(row.id, row.name, row.total_bytes);
      for (const analyzer::rows::SeenAs& seen : row.seen_as) {
        seen_as(seen.process, row.id, static_cast<std::uint64_t>(seen.ordinal));
      }
    }
  }

  [[nodiscard]] OptionalNumber complete_from(const std::string& process) const {
    for (const analyzer::rows::AllocationHistory& history : *report_.allocations) {
      if (history.process == process) return history.complete_from_ns;
    }
    return std::nullopt;
  }

  // The innermost frame has the depth 0.
  void add_stacks() {
    Insert insert(database_, "frame", 6);
    for (const analyzer::rows::Stack& stack : report_.stacks) {
      const std::uint64_t number = stacks_.try_emplace(stack.id, stacks_.size() + 1).first->second;
      std::uint64_t depth = 0;
      for (const analyzer::rows::Frame* frame : readable_frames(stack)) {
        insert(number, depth++, frame->function, frame->file, frame->line, frame->module);
      }
    }
  }
  [[nodiscard]] OptionalNumber number_of(const OptionalText& stack) const {
    const auto found = stacks_.find(stack.value_or(""));
    return found == stacks_.end() ? OptionalNumber() : OptionalNumber(found->second);
  }

  void add_allocations() {
    Insert insert(database_, "allocation", 13);
    std::uint64_t id = 0;
    for (const analyzer::rows::AllocationHistory& history : *report_.allocations) {
      for (const analyzer::rows::Allocation& row : history.allocations) {
        insert(++id, history.process, row.device, name_of(row.level), name_of(row.kind),
               row.address, row.bytes, row.start_ns, row.end_ns, name_of(row.category), row.layers,
               row.owner, number_of(row.stack));
      }
    }
  }

  void add_times() {
    Insert peak(database_, "peak", 6);
    for (const analyzer::rows::Peak& row : report_.peak) {
      peak(row.process, row.device, name_of(row.level), row.bytes, row.time_ns, row.step);
    }
    Insert step(database_, "step", 7);
    for (const analyzer::rows::Step& row : report_.steps) {
      step(row.process, row.index, row.start_ns, row.end_ns, row.peak_bytes, row.live_bytes_at_end,
           row.allocations);
    }
    Insert range(database_, "range", 7);
    for (const analyzer::rows::Range& row : report_.ranges) {
      range(row.process, row.name, row.start_ns, row.end_ns, row.peak_bytes, row.live_bytes_at_end,
            row.allocations);
    }
  }

  void add_findings() {
    Insert insert(database_, "finding", 10);
    for (const analyzer::rows::Finding& row : report_.findings) {
      insert(name_of(row.rule), name_of(row.severity), row.process, row.device, row.title,
             row.detail, std::string_view(row.fix), row.bytes, row.time_ns,
             number_of(row.origin.stack));
    }
  }

  const Report& report_;
  Database database_;
  std::map<std::string, std::uint64_t> stacks_;
};

}  // namespace

std::string sqlite_database(const Report& report) { return DatabaseWriter(report).write(); }

}  // namespace gpumemtrace::tools
