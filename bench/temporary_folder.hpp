#pragma once

#include <filesystem>

namespace gpumemtrace::bench {

// A new folder inside `parent` that vanishes with the object. Throws std::runtime_error where it
// cannot be made.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gpumemtrace::bench
