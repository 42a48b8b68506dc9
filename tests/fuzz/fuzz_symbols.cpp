// SPDX-License-Identifier: Apache-2.0
// Reads a file that claims to be a library or its debug information: symbol tables, DWARF,
// build-id, and the names found in it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/symbols/readable_name.hpp"
#include "analyzer/symbols/symbol_files.hpp"
#include "analyzer/symbols/symbolizer.hpp"
#include "tests/fuzz/checks.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace gpumemtrace;

constexpr std::size_t kMostAddresses = 64;
constexpr std::size_t kMostNames = 64;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tests::TemporaryFolder folder(tests::place_in_memory());
  const auto path = folder.write("module.so", std::as_bytes(std::span(data, size)));
  std::vector<analyzer::ElfFunction> functions;
  auto file = analyzer::ElfFile::open(path);
  if (file == nullptr) return 0;
  (void)file->build_id();
  (void)file->debug_link();
  file->add_functions(functions);
  if (analyzer::can_demangle_bounded()) {
    for (std::size_t i = 0; i < functions.size() && i < kMostNames; ++i) {
      (void)analyzer::readable_name(functions[i].name);
    }
  }
  analyzer::FoundFiles found;
  found.files.push_back(std::move(file));
  analyzer::ModuleSymbols symbols(std::move(found));
  for (std::size_t i = 0; i < functions.size() && i < kMostAddresses; ++i) {
    (void)symbols.frames_at(functions[i].begin);
  }
  for (std::uint64_t offset = 0; offset < 0x2000; offset += 0x80) (void)symbols.frames_at(offset);
  return 0;
}
