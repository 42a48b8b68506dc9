// SPDX-License-Identifier: Apache-2.0
#include "tools/export/parquet_tables.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "tools/base/text.hpp"
#include "tools/export/job_tables.hpp"
#include "tools/export/parquet_file.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
namespace rows = analyzer::rows;

// The partition in which Hive and its followers put rows whose value is NULL.
constexpr const char* kNoRank = "__HIVE_DEFAULT_PARTITION__";
// Columns of these names hold ids.
constexpr std::array<std::string_view, 4> kIds = {"id", "process", "device", "stack"};
// The number of an export is added to its numeric ids, shifted left by this many bits.
constexpr int kIdBits = 40;
constexpr std::array kOriginColumns = {Column{"job", ColumnType::kText},
                                       Column{"host", ColumnType::kText}, Column{"rank"}};

template <class T>
Value optional_value(const std::optional<T>& value) {
  return value ? Value(*value) : Value();
}

// The host and the rank of the process that a row is about.
struct HostAndRank {
  Value host;
  Value rank;
};

// Writes each table into a folder of its own below `root`, which exists.
class FolderSink : public TableSink {
 public:
  FolderSink(fs::path root, const rows::Report& report, const ParquetExport& which)
      : root_(std::move(root)), which_(which) {
    if (!report.processes.empty()) whole_job_.host = optional_value(report.processes.front().host);
    for (const rows::Process& process : report.processes) {
      const Value host = optional_value(process.host);
      processes_[process.id] = {host, optional_value(process.rank)};
      if (whole_job_.host != host) whole_job_.host = {};
    }
    for (const rows::Device& device : report.devices) {
      for (const rows::SeenAs& seen : device.seen_as) {
        const auto process = processes_.find(seen.process);
        if (process != processes_.end()) devices_[device.id].host = process->second.host;
      }
    }
  }

  [[nodiscard]] std::string format() const override { return "gpumemtrace-parquet"; }

  void begin(const Table& table) override {
    table_ = table;
    process_ = table.name == "process" ? column_of("id") : column_of("process");
    device_ = table.name == "device" ? column_of("id") : column_of("device");
    columns_.assign(table.columns.begin(), table.columns.end());
    for (const Column& column : kOriginColumns) {
      if (column_of(column.name) == table.columns.size()) columns_.push_back(column);
    }
    // Creates the file also for a table without rows, so that queries on it work.
    if (!is_partitioned()) file_of("");
  }

  void add(const std::vector<Value>& row) override {
    const HostAndRank origin = origin_of(row);
    row_ = row;
    if (which_.number != 0) make_ids_unique();
    for (std::size_t i = row.size(); i < columns_.size(); ++i) {
      row_.push_back(origin_value(columns_[i].name, origin));
    }
    file_of(is_partitioned() ? partition_of(origin.rank) : "").add(row_);
  }

  void end() override {
    if (files_.empty()) file_of(partition_of({}));
    for (auto& [partition, file] : files_) file.finish();
    files_.clear();
  }

  // All files written so far, below `root`.
  [[nodiscard]] const std::string& written() const { return written_; }

 private:
  // The index of the column with that name; the number of columns if there is none.
  [[nodiscard]] std::size_t column_of(std::string_view name) const {
    const auto found = std::ranges::find(table_.columns, name, &Column::name);
    return static_cast<std::size_t>(found - table_.columns.begin());
  }

  [[nodiscard]] bool is_partitioned() const { return column_of("process") < table_.columns.size(); }

  // The host and rank of the row's process, else the host of its device, else those of the job.
  [[nodiscard]] HostAndRank origin_of(const std::vector<Value>& row) const {
    for (const auto& [column, origins] :
         {std::pair(process_, &processes_), std::pair(device_, &devices_)}) {
      if (column >= row.size()) continue;
      const auto* const id = std::get_if<std::string>(&row[column]);
      const auto found = id == nullptr ? origins->end() : origins->find(*id);
      if (found != origins->end()) return found->second;
    }
    return whole_job_;
  }

  [[nodiscard]] Value origin_value(std::string_view column, const HostAndRank& origin) const {
    if (column == "host") return origin.host;
    if (column == "rank") return origin.rank;
    return which_.job.empty() ? Value() : Value(valid_utf8(which_.job));
  }

  void make_ids_unique() {
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      if (std::ranges::find(kIds, columns_[i].name) == kIds.end()) continue;
      if (auto* const text = std::get_if<std::string>(&row_[i])) {
        *text += format_text(".{}", which_.number);
      } else if (auto* const number = std::get_if<std::uint64_t>(&row_[i])) {
        *number += which_.number << kIdBits;
      }
    }
  }

  [[nodiscard]] static std::string partition_of(const Value& rank) {
    const auto* const number = std::get_if<std::uint64_t>(&rank);
    return number == nullptr ? format_text("rank={}", kNoRank) : format_text("rank={}", *number);
  }

  // The table's file for the partition, which is created at its first use; "" is no partition.
  ParquetFile& file_of(const std::string& partition) {
    const auto found = files_.find(partition);
    if (found != files_.end()) return found->second;
    const fs::path file =
        fs::path(table_.name) / partition / format_text("part-{}.parquet", which_.number);
    fs::create_directories((root_ / file).parent_path());
    written_ += file.string() + "\n";
    return files_.try_emplace(partition, root_ / file, columns_).first->second;
  }

  fs::path root_;
  const ParquetExport& which_;
  std::map<std::string, HostAndRank> processes_;
  // The host of each device; without a rank, because several ranks can use a device.
  std::map<std::string, HostAndRank> devices_;
  // For rows about no process or device: the host if all processes ran on one, and no rank.
  HostAndRank whole_job_;

  Table table_;
  std::vector<Column> columns_;  // the table's, then those of kOriginColumns that it lacks
  // Indexes of the columns with the process id and the device id, as column_of() returns them.
  std::size_t process_ = 0;
  std::size_t device_ = 0;
  std::vector<Value> row_;
  std::map<std::string, ParquetFile> files_;  // the table's files, by partition
  std::string written_;
};

}  // namespace

std::string write_parquet_tables(const rows::Report& report, std::string_view selection,
                                 const ParquetExport& which, const fs::path& root) {
  FolderSink sink(root, report, which);
  write_tables(report, selection, sink);
  return sink.written();
}

}  // namespace gpumemtrace::tools
