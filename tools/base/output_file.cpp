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

[[noreturn]] void refuse(const fs::path& path, int error) {
  throw Failure(format_text("cannot write {}: {}; choose another place for it", path.string(),
                            std::strerror(error)));
}

// Returns 0 or an errno value. Closes the descriptor.
int write_all(int descriptor, std::string_view content) {
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
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

// A new file next to `path`, and its name; no descriptor if none can be made. Existing files stay:
// one may be the user's, or a link to one, in a folder that others can write to.
std::pair<int, std::string> create_beside(const fs::path& path) {
  constexpr int kMostNames = 100;
  std::string name = path.string() + ".unfinished";
  for (int number = 2;; ++number) {
    const int descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST || number > kMostNames) return {descriptor, name};
    name = format_text("{}.unfinished{}", path.string(), number);
  }
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
      refuse(path, error);
    }
    return;
  }
  const auto [descriptor, unfinished] = create_beside(path);
  int error = write_all(descriptor, content);
  if (error == 0 && rename(unfinished.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  if (descriptor >= 0) unlink(unfinished.c_str());
  refuse(path, error);
}

void append_output(const fs::path& path, const std::string& content) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (const int error = write_all(descriptor, content); error != 0) refuse(path, error);
}

}  // namespace gpumemtrace::tools
