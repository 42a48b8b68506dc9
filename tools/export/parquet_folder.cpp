// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"
#include "tools/export/parquet_tables.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// The file that lists the files of an export, one a line, with its own name as the last. The list
// of a further export in the same folder has the export's number as its suffix. Query engines skip
// names with a leading underscore.
constexpr const char* kFileList = "_gpumemtrace_files";

// The name of the list file of the export with that number.
std::string list_of(std::uint64_t number) {
  return number == 0 ? kFileList : format_text("{}.{}", kFileList, number);
}

bool is_file_list(const fs::path& name) { return name.string().starts_with(kFileList); }

// Adds to `files` the list file itself and the files that it names, relative to its folder.
void add_listed(const fs::path& list, std::set<fs::path>& files) {
  files.insert(list.filename());
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    files.insert(fs::path(line).lexically_normal());
  }
}

// The files of all exports in `folder`; empty if there is none.
std::set<fs::path> files_of_exports(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_file_list(entry.path().filename())) add_listed(entry.path(), files);
  }
  return files;
}

// Removes files below `folder`, and folders that are empty then.
void remove_files(const fs::path& folder, const std::set<fs::path>& files) {
  std::error_code ignored;
  std::set<fs::path> folders;
  for (const fs::path& file : files) {
    const bool leads_out = file.is_absolute() || *file.begin() == "..";
    if (leads_out) continue;
    fs::remove(folder / file, ignored);
    for (fs::path parent = file.parent_path(); !parent.empty(); parent = parent.parent_path()) {
      folders.insert(parent);
    }
  }
  // In reverse order, because a folder sorts before the folders in it.
  std::for_each(folders.rbegin(), folders.rend(),
                [&](const fs::path& inner) { fs::remove(folder / inner, ignored); });
  fs::remove(folder, ignored);
}

// Creates a folder beside `folder`, with the suffix and a number that make its name new.
fs::path create_folder_beside(const fs::path& folder, const char* suffix) {
  constexpr int kMostNames = 100;
  for (int number = 1; number <= kMostNames; ++number) {
    const std::string digits = number == 1 ? "" : format_text("{}", number);
    const fs::path name = folder.string() + suffix + digits;
    if (fs::create_directory(name)) return name;
  }
  throw Failure(format_text("{}{} and {} more like it are left over; remove them", folder.string(),
                            suffix, kMostNames - 1));
}

// The path of the folder itself: links are resolved, a trailing slash is removed.
fs::path real_name(const fs::path& folder) {
  const fs::path whole = fs::weakly_canonical(fs::absolute(folder));
  return whole.has_filename() ? whole : whole.parent_path();
}

// Writes an export and the list of its files.
void write_export(const analyzer::rows::Report& report, std::string_view selection,
                  const ParquetExport& which, const fs::path& root) {
  const std::string list = list_of(which.number);
  append_output(root / list, "");
  append_output(root / list, write_parquet_tables(report, selection, which, root) + list + "\n");
}

// Renames `whole` to `folder`, and removes the earlier export that was there.
void replace_folder(const fs::path& whole, const fs::path& folder) {
  if (!fs::exists(fs::symlink_status(folder)) || fs::is_empty(folder)) {
    fs::rename(whole, folder);  // rename() replaces an empty folder
    return;
  }
  const fs::path old = create_folder_beside(folder, ".replaced");
  fs::rename(folder, old);
  std::error_code error;
  fs::rename(whole, folder, error);
  if (error) {
    fs::rename(old, folder);
    throw fs::filesystem_error("rename", error);
  }
  remove_files(old, files_of_exports(old));
}

// Takes the lowest number that no export in `folder` has, by making its list. Exports from several
// machines can do so at once.
std::uint64_t take_number(const fs::path& folder) {
  for (std::uint64_t number = 0;; ++number) {
    const int list = open((folder / list_of(number)).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (list >= 0) {
      close(list);
      return number;
    }
    if (errno != EEXIST) {
      throw fs::filesystem_error("open", std::error_code(errno, std::generic_category()));
    }
  }
}

// Moves the files of the export in `whole` into `folder`, beside those of other exports. The list
// file moves first, so that all files in `folder` are listed even if the process ends midway.
void add_to_folder(const fs::path& whole, const std::string& list, const fs::path& folder) {
  std::set<fs::path> files;
  add_listed(whole / list, files);
  fs::rename(whole / list, folder / list);
  for (const fs::path& file : files) {
    if (file == list) continue;
    fs::create_directories((folder / file).parent_path());
    fs::rename(whole / file, folder / file);
  }
  fs::remove_all(whole);
}

}  // namespace

void require_parquet_folder(const ParquetTarget& target) {
  const fs::path& folder = target.folder;
  const auto refuse = [&](std::string_view why) {
    throw Failure(format_text("{} {}", folder.string(), why), ExitCode::kUsage);
  };
  if (is_stdout(folder)) {
    throw Failure("parquet is a folder of files; name it with -o FOLDER", ExitCode::kUsage);
  }
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return;
  if (!fs::is_directory(folder, error)) refuse("is a file; parquet is a folder of files");
  const std::set<fs::path> ours = files_of_exports(folder);
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    const fs::path name = entry.path().lexically_relative(folder);
    if (!ours.contains(name)) {
      refuse(
          format_text("holds {}, which is not of an export; name another folder", name.string()));
    }
    if (!target.force && target.job.empty()) {
      refuse("holds an export already; name another folder, or add --force or --job");
    }
  }
  if (error) refuse(format_text("cannot be read: {}", error.message()));
}

// Writes the export into a folder beside the target, then renames that to the target, or moves its
// files there if the target keeps other exports. Removes what it wrote if it fails.
void write_parquet_folder(const analyzer::rows::Report& report, std::string_view selection,
                          const ParquetTarget& target) {
  const bool is_added = !target.job.empty() && !target.force;
  ParquetExport which = {target.job, 0};
  fs::path folder;
  fs::path unfinished;
  std::set<fs::path> taken;
  try {
    folder = real_name(target.folder);
    if (is_added) {
      fs::create_directories(folder);
      which.number = take_number(folder);
      taken.insert(list_of(which.number));
    }
    unfinished = create_folder_beside(folder, ".unfinished");
    write_export(report, selection, which, unfinished);
    if (is_added) {
      add_listed(unfinished / list_of(which.number), taken);
      add_to_folder(unfinished, list_of(which.number), folder);
    } else {
      replace_folder(unfinished, folder);
    }
  } catch (const std::exception& error) {
    std::error_code ignored;
    if (!unfinished.empty()) fs::remove_all(unfinished, ignored);
    if (!taken.empty()) remove_files(folder, taken);
    const auto* const system = dynamic_cast<const fs::filesystem_error*>(&error);
    if (system == nullptr) throw;
    throw Failure(format_text("cannot write {}: {}; choose another place for it",
                              target.folder.string(), system->code().message()));
  }
}

}  // namespace gpumemtrace::tools
