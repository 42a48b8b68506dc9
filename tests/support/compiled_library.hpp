// SPDX-License-Identifier: Apache-2.0
// Small libraries that tests compile, to have files whose functions and lines are known.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "analyzer/symbols/symbol_files.hpp"
#include "tests/catch.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::tests {

inline void run_command(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

inline std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  pclose(pipe);
  return output;
}

// Compiles a shared library in a folder of its own.
struct CompiledLibrary {
  TemporaryFolder folder;
  std::filesystem::path path;
  std::string build_id;
  // Begin and size of each function by its name.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> functions;

  CompiledLibrary(const std::string& name, const std::string& source, const std::string& flags)
      : path(folder.path() / name) {
    const std::filesystem::path source_path = folder.path() / "source.cpp";
    std::ofstream(source_path) << source;
    run_command("c++ -shared -fPIC -Wl,--build-id=sha1 " + flags + " -o " + path.string() + " " +
                source_path.string());
    build_id = analyzer::ElfFile::open(path)->build_id();
    std::istringstream symbols(output_of("nm -S --defined-only " + path.string()));
    std::string line;
    while (std::getline(symbols, line)) {
      std::istringstream words(line);
      std::string address;
      std::string size;
      std::string type;
      std::string symbol;
      if (!(words >> address >> size >> type >> symbol)) continue;
      functions[symbol] = {std::stoull(address, nullptr, 16), std::stoull(size, nullptr, 16)};
    }
  }

  [[nodiscard]] std::uint64_t begin_of(const std::string& symbol) const {
    return functions.at(symbol).first;
  }
};

}  // namespace gpumemtrace::tests
