// SPDX-License-Identifier: Apache-2.0
// Reads the small JSON files that users keep beside a job: the baseline of `check`, the names that
// `symbolize` wrote, rules of owners.
#include <cstddef>
#include <cstdint>
#include <span>

#include "analyzer/base/input_error.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/symbols/symbolizer.hpp"
#include "tests/fuzz/checks.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/base/failure.hpp"
#include "tools/check/baseline.hpp"

namespace {

using namespace gpumemtrace;

void read_baseline(const std::filesystem::path& path, const tests::TemporaryFolder& folder) {
  try {
    const tools::Baseline baseline = tools::Baseline::read(path);
    const std::string text = baseline.text();
    const auto again = folder.write("again.json", std::as_bytes(std::span(text)));
    tests::require(tools::Baseline::read(again).text() == text, "a baseline is read as written");
  } catch (const tools::Failure&) {
  }
}

void read_side_car(const std::filesystem::path& path) {
  try {
    analyzer::SideCar names;
    names.read(path);
    tests::require(names.named_offset_count() <= names.offset_count(), "no name without a place");
    (void)names.text();
  } catch (const analyzer::InputError&) {
  }
}

void read_owners(const std::filesystem::path& path) {
  try {
    analyzer::CodeOwners owners;
    owners.read(path);
    (void)owners.owner_of_code("/usr/lib/libtorch.so", "grow", "/usr/bin/python3");
    (void)owners.is_users_python("/home/me/train.py", "step");
  } catch (const analyzer::InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tests::TemporaryFolder folder(tests::place_in_memory());
  const auto path = folder.write("input.json", std::as_bytes(std::span(data, size)));
  read_baseline(path, folder);
  read_side_car(path);
  read_owners(path);
  return 0;
}
