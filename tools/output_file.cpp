#include "tools/output_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "tools/failure.hpp"

namespace gpumemtrace::tools {

void write_output(const std::filesystem::path& path, const std::string& content) {
  if (path.empty()) {
    fmt::print("{}", content);
    return;
  }
  const std::filesystem::path unfinished = path.string() + ".unfinished";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(unfinished, path, error);
  if (file && !error) return;
  const std::string reason = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(unfinished, error);
  throw Failure(
      fmt::format("cannot write {}: {}; choose another place for it", path.string(), reason));
}

}  // namespace gpumemtrace::tools
