// SPDX-License-Identifier: Apache-2.0
// docs/format.md lists every record kind and field. Its tables are written from the declarations:
// run this test with GPUMEMTRACE_UPDATE_DOCUMENTS=1 to write them anew.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/catch.hpp"
#include "trace/schema.hpp"

using namespace gpumemtrace::trace;

namespace {

constexpr const char* kBegin = "<!-- records: begin -->\n";
constexpr const char* kEnd = "<!-- records: end -->\n";

const char* name_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kPlain:
      return "plain";
    case Encoding::kSigned:
      return "signed";
    case Encoding::kDelta:
      return "delta";
    case Encoding::kTime:
      return "time";
    case Encoding::kAfterStart:
      return "after start";
  }
  return "?";
}

std::string tables() {
  std::ostringstream out;
  for (const KindInfo& kind : kKinds) {
    out << "\n#### " << kind.name << " (kind " << static_cast<int>(kind.kind) << ", " << kind.bytes
        << " bytes" << (kind.has_tail ? " and a tail" : "") << ")\n\n"
        << "| field | offset | bytes | encoding |\n| --- | --- | --- | --- |\n";
    for (const Field& field : kind.fields) {
      out << "| `" << field.name << "` | " << field.offset << " | " << static_cast<int>(field.bytes)
          << " | " << name_of(field.encoding) << " |\n";
    }
  }
  out << "\n";
  return out.str();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("docs/format.md lists the records as they are declared", "[unit]") {
  const std::string path = GPUMEMTRACE_SOURCE_DIR "/docs/format.md";
  const std::string document = read_file(path);
  const std::size_t begin = document.find(kBegin);
  const std::size_t end = document.find(kEnd);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const std::size_t body = begin + std::string(kBegin).size();
  const std::string expected = document.substr(0, body) + tables() + document.substr(end);
  if (std::getenv("GPUMEMTRACE_UPDATE_DOCUMENTS") != nullptr) {
    std::ofstream(path, std::ios::binary) << expected;
  } else {
    CHECK(document == expected);
  }
}
