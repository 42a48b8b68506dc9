// SPDX-License-Identifier: Apache-2.0
// Files of partial reports: packed as the tool writes them, or unpacked by a user who looks at
// them.
#include "tools/report_view/partial_file.hpp"

#include "analyzer/json/report_json.hpp"
#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/base/failure.hpp"

namespace gpumemtrace::tools::partial_file_test {
namespace {

analyzer::rows::Partial partial_of_ranks(std::size_t ranks) {
  analyzer::rows::Partial partial;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    partial.unreadable_traces.push_back({"rank.gmt", "its end is missing"});
  }
  return partial;
}

}  // namespace

TEST_CASE("a partial report is read as it was written, packed or unpacked", "[unit]") {
  const tests::TemporaryFolder folder;
  const analyzer::rows::Partial partial = partial_of_ranks(1000);
  const std::string text = analyzer::to_text(partial);
  const std::string packed = partial_file_bytes(partial);
  CHECK(packed.size() < text.size() / 50);
  for (const auto& [name, content] :
       {std::pair("node.bin", packed), std::pair("node.json", text)}) {
    const auto file = folder.write(name, content);
    CHECK(is_partial_report(file));
    CHECK(analyzer::to_text(read_partial(file)) == text);
  }
  CHECK_FALSE(is_partial_report(folder.write("report.json", "{}")));
}

TEST_CASE("a partial report that is not whole is refused by name", "[unit]") {
  const tests::TemporaryFolder folder;
  const std::string packed = partial_file_bytes(partial_of_ranks(20000));
  const auto refusal = [&](const std::string& bytes) {
    const auto file = folder.write("node.part.json.zst", bytes);
    return tests::error_of<Failure>([&] { (void)read_partial(file); });
  };
  std::string changed = packed;
  changed[packed.size() - 1] ^= 1;  // changes a byte of the checksum
  for (const std::string& bytes :
       {packed.substr(0, packed.size() - 1), packed.substr(0, packed.size() / 2),
        packed.substr(0, 20), packed + "more", changed, std::string()}) {
    CHECK(refusal(bytes).find("node.part.json.zst is no complete partial report") !=
          std::string::npos);
  }
}

}  // namespace gpumemtrace::tools::partial_file_test
