// A folder for what a test must have in files: one a process, in memory where there is such a
// place.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>

namespace gpumemtrace::tests {

class ScratchFolder {
 public:
  // Throws std::runtime_error where there is nowhere to write to.
  ScratchFolder() {
    std::string name = "/dev/shm/gpumemtrace-test-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      name = (std::filesystem::temp_directory_path() / "gpumemtrace-test-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("No folder to write to.");
    }
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The file of that name with these bytes, and no others.
  std::filesystem::path write(const char* name, std::span<const std::byte> bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) throw std::runtime_error("Cannot write " + file.string() + ".");
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace gpumemtrace::tests
