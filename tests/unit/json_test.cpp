// SPDX-License-Identifier: Apache-2.0
// JSON in and out: values become text, and text becomes report rows.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "analyzer/json/report_json.hpp"
#include "analyzer/json/row_values.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_file.hpp"

namespace gpumemtrace::analyzer::json_test {
namespace {

using Values = std::vector<std::pair<std::string, JsonScalar>>;

struct Row {
  std::uint64_t count = 0;
  std::optional<std::string> name;
  std::vector<std::int64_t> numbers;
  std::vector<Row> rows;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v.added, count, name, numbers);
    v("rows", self.rows);
  }
};

std::string refusal_of(const std::string& text) {
  try {
    (void)row_of_text<Row>(text, "row");
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a report that was written is read and written as it was", "[unit]") {
  std::ifstream file(tests::source_file("docs/report.example.json"));
  std::ostringstream text;
  text << file.rdbuf();
  // The first text already differs from the example, because it also has keys that the example
  // lacks.
  const std::string written = to_text(report_of_text(text.str()));
  CHECK(to_text(report_of_text(written)) == written);
}

TEST_CASE("a report whose stacks have their frames themselves tells the same", "[unit]") {
  std::ifstream file(tests::source_file("docs/report.example.json"));
  std::ostringstream text;
  text << file.rdbuf();
  const rows::Report report = report_of_text(text.str());
  REQUIRE(!report.stacks.at(0).frames.indexes.empty());
  rows::Report whole = report;
  put_frames_into_stacks(whole);
  const rows::Report read = report_of_text(to_text(whole));
  CHECK(!read.frames_by);
  CHECK(read.frames.empty());
  for (std::size_t i = 0; i < report.stacks.size(); ++i) {
    CHECK(std::ranges::equal(frames_of(report, report.stacks[i]), frames_of(read, read.stacks[i]),
                             [](const auto* one, const auto* other) { return *one == *other; }));
  }
}

TEST_CASE("each row of a report is a line, however many there are", "[unit]") {
  constexpr std::size_t kRows = 1000;
  rows::Report report;
  report.losses.assign(kRows, {"pauses", 3, Severity::kInfo, "none"});
  const std::string text = to_text(report);
  const std::string row = R"({"name": "pauses", "count": 3, "severity": "info", "remedy": "none"})";
  CHECK(text.find("\n  \"losses\": [\n    " + row + ",\n    " + row + ",\n") != std::string::npos);
  CHECK(text.ends_with(",\n    " + row + "\n  ]\n}\n"));
  CHECK(report_of_text(text).losses.size() == kRows);
}

TEST_CASE("a report that lacks a frame of its stacks is refused", "[unit]") {
  rows::Report report;
  report.stacks.emplace_back().frames.indexes = {0};
  CHECK_THROWS_AS(report_of_text(to_text(report)), InputError);
  report.frames.emplace_back().function = "step";
  CHECK(report_of_text(to_text(report)).stacks[0].frames.indexes == std::vector<std::uint64_t>{0});
}

TEST_CASE("values are written as they were read, of equal names the last one", "[unit]") {
  const std::string text = R"({"b":1,"a":-2,"c":1.0,"d":1e+300,"e":true,"f":null,"g":"\u0001\"é"})";
  CHECK(json_text(row_of_text<Values>(text, "values")) == text);
  CHECK(json_text(row_of_text<Values>(R"({"z":1,"a":2,"z":3})", "values")) == R"({"z":3,"a":2})");
  CHECK(json_text(std::nan("")) == "null");
  CHECK(json_text(std::string("a\xff")) == "\"a\xef\xbf\xbd\"");
}

TEST_CASE("only what is of numbers is on one line", "[unit]") {
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> lists = {{"a", {1, -2}},
                                                                                {"b", {}}};
  CHECK(json_text(lists, JsonLayout::kIndented) == R"({"a": [1, -2], "b": []})");
  CHECK(json_text(Row{1, {}, {1, 2}, {}}, JsonLayout::kIndented) ==
        R"({"count": 1, "name": null, "numbers": [1, 2], "rows": []})");
  const Row row{7, {}, {}, {{1, "x", {}, {}}, {2, {}, {3, 4}, {}}}};
  CHECK(json_text(row, JsonLayout::kIndented) == R"({
  "count": 7,
  "name": null,
  "numbers": [],
  "rows": [
    {
      "count": 1,
      "name": "x",
      "numbers": [],
      "rows": []
    },
    {"count": 2, "name": null, "numbers": [3, 4], "rows": []}
  ]
})");
}

TEST_CASE("keys of no table are skipped, and the last of equal keys counts", "[unit]") {
  const Row row = row_of_text<Row>(
      R"({"other":[{"count":[1]}],"count":1,"rows":[{"rows":[]},{"rows":[]}],"count":2.0,)"
      R"("numbers":[-1,2],"rows":[{"name":"x","rows":[]}]})",
      "row");
  CHECK(row.count == 2);
  CHECK(row.numbers == std::vector<std::int64_t>{-1, 2});
  REQUIRE(row.rows.size() == 1);
  CHECK(row.rows[0].name == "x");
}

TEST_CASE("a value of another kind is refused by the name of its key", "[unit]") {
  CHECK(refusal_of("{}") == "'rows' is missing");
  CHECK(refusal_of("[]") == "'row' is no object");
  CHECK(refusal_of(R"({"count":-1,"rows":[]})") == "'count' is no number of that size");
  CHECK(refusal_of(R"({"count":"1","rows":[]})") == "'count' is no number of that size");
  CHECK(refusal_of(R"({"count":[],"rows":[]})") == "'count' is no number of that size");
  CHECK(refusal_of(R"({"count":1.9,"rows":[]})") == "'count' is no whole number");
  CHECK(refusal_of(R"({"count":-0.5,"rows":[]})") == "'count' is no number of that size");
  CHECK(refusal_of(R"({"count":1e20,"rows":[]})") == "'count' is no number of that size");
  CHECK(refusal_of(R"({"numbers":[-1.5],"rows":[]})") == "'numbers' is no whole number");
  CHECK(refusal_of(R"({"numbers":[9223372036854775807],"rows":[]})").empty());
  CHECK(refusal_of(R"({"numbers":[9223372036854775808],"rows":[]})") ==
        "'numbers' is no number of that size");
  CHECK(refusal_of(R"({"name":1,"rows":[]})") == "'name' is no text");
  CHECK(refusal_of(R"({"rows":{}})") == "'rows' is no list");
  CHECK(refusal_of(R"({"rows":[null]})") == "'rows' is no object");
}

TEST_CASE("text that is no JSON is refused, also if it is nested too deeply", "[unit]") {
  CHECK(refusal_of("{").starts_with("parse error at line 1"));
  CHECK(refusal_of(R"({"rows":[]} 2)").starts_with("parse error"));
  CHECK(refusal_of(R"({"other":1e999,"rows":[]})").starts_with("number overflow"));
  const auto nested = [](std::size_t levels) {
    return R"({"rows":[],"other":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  CHECK(refusal_of(nested(499)).empty());
  CHECK(refusal_of(nested(500)) == "it is nested too deeply");
}

TEST_CASE("text of JSON steers no terminal and means what it was", "[unit]") {
  const std::string text = "\x7f\xc2\x9b\xe2\x80\xae\xef\xbf\xbf\xf3\xa0\x81\x81 \xc3\xa4";
  CHECK(json_text(text) == R"("\u007f\u009b\u202e\uffff\udb40\udc41 )"
                           "\xc3\xa4\"");
  CHECK(row_of_text<std::string>(json_text(text), "text") == text);
  CHECK(json_text(std::string("a::b ::error ##[error]")) ==
        R"("a::b \u003a:error \u0023#[error]")");
}

}  // namespace gpumemtrace::analyzer::json_test
