// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"
#include "tools/export/job_tables.hpp"
#include "tools/export/parquet_file.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// The file with the names of the export's files, a line each, itself last. Engines skip names that
// begin so.
constexpr const char* kFileList = "_gpumemtrace_files";
constexpr const char* kPartFile = "part-0.parquet";
// The partition in which Hive and its followers put rows whose value is NULL.
constexpr const char* kNoRank = "__HIVE_DEFAULT_PARTITION__";

// Writes each table into a folder of its own below `root`, which exists.
class FolderSink : public TableSink {
 public:
  FolderSink(fs::path root, const analyzer::rows::Report& report) : root_(std::move(root)) {
    for (const analyzer::rows::Process& process : report.processes) {
      if (process.rank) partitions_[process.id] = format_text("rank={}", *process.rank);
    }
  }

  [[nodiscard]] std::string format() const override { return "gpumemtrace-parquet"; }

  void begin(const Table& table) override {
    table_ = table;
    const auto process = std::ranges::find(table.columns, "process", &Column::name);
    process_ = static_cast<std::size_t>(process - table.columns.begin());
    // A table without rows can be queried, too.
    if (!is_partitioned()) file_of("");
  }

  void add(const std::vector<Value>& row) override {
    file_of(is_partitioned() ? partition_of(row[process_]) : "").add(row);
  }

  void end() override {
    if (files_.empty()) file_of(partition_of({}));
    for (auto& [partition, file] : files_) file.finish();
    files_.clear();
  }

  // All files written so far, below `root`.
  [[nodiscard]] const std::string& written() const { return written_; }

 private:
  [[nodiscard]] bool is_partitioned() const { return process_ < table_.columns.size(); }

  [[nodiscard]] std::string partition_of(const Value& process) const {
    const auto* const id = std::get_if<std::string>(&process);
    const auto found = id == nullptr ? partitions_.end() : partitions_.find(*id);
    return found == partitions_.end() ? format_text("rank={}", kNoRank) : found->second;
  }

  ParquetFile& file_of(const std::string& partition) {
    const auto found = files_.find(partition);
    if (found != files_.end()) return found->second;
    const fs::path file = fs::path(table_.name) / partition / kPartFile;
    fs::create_directories((root_ / file).parent_path());
    written_ += file.string() + "\n";
    return files_.try_emplace(partition, root_ / file, table_.columns).first->second;
  }

  fs::path root_;
  std::map<std::string, std::string> partitions_;  // by process
  Table table_;
  std::size_t process_ = 0;                   // the column; behind the last: there is none
  std::map<std::string, ParquetFile> files_;  // of the table, by partition
  std::string written_;
};

// The files that the list in `folder` names; empty if there is none.
std::set<fs::path> files_of_export(const fs::path& folder) {
  std::set<fs::path> files;
  std::ifstream list(folder / kFileList);
  for (std::string line; std::getline(list, line);) files.insert(fs::path(line).lexically_normal());
  return files;
}

// Removes the files of an export, and folders that are empty then.
void remove_export(const fs::path& folder) {
  std::error_code ignored;
  std::set<fs::path> folders;
  for (const fs::path& file : files_of_export(folder)) {
    const bool leads_out = file.is_absolute() || *file.begin() == "..";
    if (leads_out) continue;
    fs::remove(folder / file, ignored);
    for (fs::path parent = file.parent_path(); !parent.empty(); parent = parent.parent_path()) {
      folders.insert(parent);
    }
  }
  // Inner folders come after those that they are in.
  std::for_each(folders.rbegin(), folders.rend(),
                [&](const fs::path& inner) { fs::remove(folder / inner, ignored); });
  fs::remove(folder, ignored);
}

// A new folder beside `folder`.
fs::path create_beside(const fs::path& folder, const char* suffix) {
  constexpr int kMostNames = 100;
  for (int number = 1; number <= kMostNames; ++number) {
    const std::string digits = number == 1 ? "" : format_text("{}", number);
    const fs::path name = folder.string() + suffix + digits;
    if (fs::create_directory(name)) return name;
  }
  throw Failure(format_text("{}{} and {} more like it are left over; remove them", folder.string(),
                            suffix, kMostNames - 1));
}

// The target of a link; a trailing slash is no part of a name.
fs::path real_name(const fs::path& folder) {
  const fs::path whole = fs::weakly_canonical(fs::absolute(folder));
  return whole.has_filename() ? whole : whole.parent_path();
}

void write_tables_below(const analyzer::rows::Report& report, std::string_view selection,
                        const fs::path& root) {
  FolderSink sink(root, report);
  append_output(root / kFileList, "");
  write_tables(report, selection, sink);
  append_output(root / kFileList, sink.written() + kFileList + "\n");
}

// `whole` becomes `folder`, and replaces an earlier export.
void replace_folder(const fs::path& whole, const fs::path& folder) {
  if (!fs::exists(fs::symlink_status(folder)) || fs::is_empty(folder)) {
    fs::rename(whole, folder);  // also over an empty folder
    return;
  }
  const fs::path old = create_beside(folder, ".replaced");
  fs::rename(folder, old);
  std::error_code error;
  fs::rename(whole, folder, error);
  if (error) {
    fs::rename(old, folder);
    throw fs::filesystem_error("rename", error);
  }
  remove_export(old);
}

}  // namespace

void require_parquet_folder(const fs::path& folder, bool force) {
  const auto refuse = [&](std::string_view why) {
    throw Failure(format_text("{} {}", folder.string(), why), ExitCode::kUsage);
  };
  if (is_stdout(folder)) {
    throw Failure("parquet is a folder of files; name it with -o FOLDER", ExitCode::kUsage);
  }
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return;
  if (!fs::is_directory(folder, error)) refuse("is a file; parquet is a folder of files");
  const std::set<fs::path> ours = files_of_export(folder);
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    const fs::path name = entry.path().lexically_relative(folder);
    if (!ours.contains(name)) {
      refuse(
          format_text("holds {}, which is not of an export; name another folder", name.string()));
    }
    if (!force) refuse("holds an export already; name another folder, or add --force");
  }
  if (error) refuse(format_text("cannot be read: {}", error.message()));
}

void write_parquet_folder(const analyzer::rows::Report& report, std::string_view selection,
                          const fs::path& folder) {
  fs::path unfinished;
  try {
    const fs::path target = real_name(folder);
    unfinished = create_beside(target, ".unfinished");
    write_tables_below(report, selection, unfinished);
    replace_folder(unfinished, target);
  } catch (const std::exception& error) {
    std::error_code ignored;
    if (!unfinished.empty()) fs::remove_all(unfinished, ignored);
    const auto* const system = dynamic_cast<const fs::filesystem_error*>(&error);
    if (system == nullptr) throw;
    throw Failure(format_text("cannot write {}: {}; choose another place for it", folder.string(),
                              system->code().message()));
  }
}

}  // namespace gpumemtrace::tools
