// SPDX-License-Identifier: Apache-2.0
// docs/internals/records.txt lists every record kind and field, as they are declared: run this test
// with GPUMEMTRACE_UPDATE_DOCUMENTS=1 to write it again.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/support/source_file.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::format_document_test {

using namespace gpumemtrace::trace;

namespace {

// The number of fields at the begin of every record, and of every call.
constexpr std::size_t kCommonFields = 4;
constexpr std::size_t kCallFields = 8;

// The letter that stands after a field's bytes; docs/internals/format.md explains it.
const char* letter_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kPlain:
      return "";
    case Encoding::kSigned:
      return "s";
    case Encoding::kDelta:
      return "d";
    case Encoding::kTime:
      return "t";
    case Encoding::kAfterStart:
      return "e";
  }
  return "?";
}

void write_fields(std::ostream& out, std::span<const Field> fields) {
  const char* separator = "";
  for (const Field& field : fields) {
    out << separator << field.name << ' ' << static_cast<int>(field.bytes)
        << letter_of(field.encoding);
    separator = ", ";
  }
}

bool begin_alike(std::span<const Field> fields, std::span<const Field> common) {
  return fields.size() >= common.size() &&
         std::equal(common.begin(), common.end(), fields.begin(),
                    [](const Field& one, const Field& other) { return one.name == other.name; });
}

bool follow_each_other(std::span<const Field> fields) {
  const Field* before = nullptr;
  for (const Field& field : fields) {
    if (before != nullptr && before->offset + before->bytes != field.offset) return false;
    before = &field;
  }
  return !fields.empty() && fields.front().offset == 2;
}

std::string list_of_records() {
  const std::span<const Field> call =
      std::span<const Field>(schema::Of<Free>::kFields).first(kCallFields);
  const std::span<const Field> common = call.first(kCommonFields);
  std::ostringstream out;
  out << "every record, 16 bytes: ";
  write_fields(out, common);
  out << "\na call, 40 bytes: those, ";
  write_fields(out, call.subspan(kCommonFields));
  out << '\n';
  for (const KindInfo& kind : kKinds) {
    CHECK(follow_each_other(kind.fields));
    const bool is_call = begin_alike(kind.fields, call);
    CHECK(begin_alike(kind.fields, common));
    out << static_cast<int>(kind.kind) << ' ' << kind.name << ", " << kind.bytes << " bytes"
        << (kind.has_tail ? " and a tail" : "") << ": " << (is_call ? "call, " : "");
    write_fields(out, kind.fields.subspan(is_call ? kCallFields : kCommonFields));
    out << '\n';
  }
  return out.str();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("docs/internals/records.txt lists the records as they are declared", "[unit]") {
  const std::string path = tests::source_file("docs/internals/records.txt");
  if (std::getenv("GPUMEMTRACE_UPDATE_DOCUMENTS") != nullptr) {
    std::ofstream(path, std::ios::binary) << list_of_records();
  } else {
    CHECK(read_file(path) == list_of_records());
  }
}

}  // namespace gpumemtrace::format_document_test
