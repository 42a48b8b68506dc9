// SPDX-License-Identifier: Apache-2.0
#include "tools/base/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_write_failure(const fs::path& path, int error) {
  throw Failure(format_text("cannot write {}: {}; choose another place for it", path.string(),
                            std::strerror(error)));
}

// Writes all content and closes the descriptor. Returns 0 or an errno value. If `is_durable`, the
// content is synced to disk and dropped from the page cache, so that a reader reads it from disk.
int write_all(int descriptor, std::string_view content, bool is_durable = false) {
  if (descriptor < 0) return errno;
  int error = 0;
  while (!content.empty() && error == 0) {
    const ssize_t written = write(descriptor, content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (is_durable && error == 0) {
    if (fsync(descriptor) != 0) error = errno;
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  }
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

// Syncs a folder, so that a new file name in it is on disk. Returns 0 or an errno value.
int sync_folder(const fs::path& folder) {
  const int descriptor =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return error;
}

// Creates a new file next to `path`; returns its descriptor, or -1 if that fails, and its name. An
// existing file is never used: in a folder that others can write to, it may be the user's own or a
// link to one.
std::pair<int, std::string> create_file_beside(const fs::path& path, mode_t mode) {
  constexpr int kMostNames = 100;
  std::string name = path.string() + ".unfinished";
  for (int number = 2;; ++number) {
    const int descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0 || errno != EEXIST || number > kMostNames) return {descriptor, name};
    name = format_text("{}.unfinished{}", path.string(), number);
  }
}

// Writes a new file, which is renamed to `path` only when it is complete.
void replace_file(const fs::path& path, const std::string& content, mode_t mode, bool is_durable) {
  const auto [descriptor, unfinished] = create_file_beside(path, mode);
  int error = write_all(descriptor, content, is_durable);
  if (error == 0 && rename(unfinished.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  if (descriptor >= 0) unlink(unfinished.c_str());
  throw_write_failure(path, error);
}

}  // namespace

bool is_stdout(const fs::path& path) { return path.empty() || path == "-"; }

void write_output(const fs::path& path, const std::string& content) {
  if (is_stdout(path)) {
    write_text(stdout, content);
    return;
  }
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    // A device or a pipe is written, not replaced.
    if (const int error = write_all(open(path.c_str(), O_WRONLY | O_CLOEXEC), content);
        error != 0) {
      throw_write_failure(path, error);
    }
    return;
  }
  replace_file(path, content, 0666, false);
}

void write_private_durably(const fs::path& path, const std::string& content) {
  replace_file(path, content, 0600, true);
  if (const int error = sync_folder(path.parent_path()); error != 0)
    throw_write_failure(path, error);
}

void append_output(const fs::path& path, const std::string& content) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (const int error = write_all(descriptor, content); error != 0)
    throw_write_failure(path, error);
}

}  // namespace gpumemtrace::tools
