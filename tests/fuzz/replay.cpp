// SPDX-License-Identifier: Apache-2.0
// Runs a fuzzer's harness over kept inputs, with any compiler: `PROGRAM FOLDER_OR_FILE...`.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Runs the harness on one file. False if the file cannot be read.
bool replay(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  // This buffer is exactly as long as the input, so that a sanitizer notices a read behind its end.
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

// Runs the harness on a file, or on all files of a folder. Returns their number; 0 if one cannot be
// read.
std::size_t replay_all(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return replay(path) ? 1 : 0;
  std::size_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (!replay(entry.path())) return 0;
    ++inputs;
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t inputs = 0;
  for (int i = 1; i < argc; ++i) {
    const std::size_t here = replay_all(argv[i]);
    // Without any input the corpus is not where the test looks for it.
    if (here == 0) {
      std::fprintf(stderr, "%s: no input, or one that cannot be read\n", argv[i]);
      return 1;
    }
    inputs += here;
  }
  std::printf("%zu inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}
