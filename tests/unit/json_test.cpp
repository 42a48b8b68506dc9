// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/json.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/catch.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    (void)Json::parse(text);
  } catch (const JsonError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("what is parsed is printed as it was", "[unit]") {
  std::ifstream file(GPUMEMTRACE_SOURCE_DIR "/docs/report.example.json");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(Json::parse(text.str()).dump(2) + "\n" == text.str());
  const char* const small = R"({"b":[1,-2,1.0,1e+300,true,null,"\u0001\"\\é"],"a":{},"c":[]})";
  CHECK(Json::parse(small).dump() == small);
}

TEST_CASE("braces make objects of pairs, and lists of everything else", "[unit]") {
  const Json object = {{"one", 1}, {"list", {1, 2, 3}}, {"none", nullptr}};
  CHECK(object.dump() == R"({"one":1,"list":[1,2,3],"none":null})");
  CHECK(Json::array({{"one", 1}}).dump() == R"([["one",1]])");
}

TEST_CASE("an object keeps the order of its members, and one of each name", "[unit]") {
  Json object = Json::parse(R"({"z":1,"a":2,"z":3})");
  object["m"] = 4;
  CHECK(object.dump() == R"({"z":3,"a":2,"m":4})");
  object.erase("a");
  CHECK(object.dump() == R"({"z":3,"m":4})");
}

TEST_CASE("numbers are compared by value, whatever their type", "[unit]") {
  CHECK(Json(1) == Json(1U));
  CHECK(Json(1.0) == 1);
  CHECK(Json(-1) < std::numeric_limits<std::uint64_t>::max());
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()) > -1);
  CHECK_FALSE(Json(std::nan("")) == Json(std::nan("")));
  CHECK_FALSE(Json("1") == Json(1));
  CHECK(Json(nullptr) < Json(0));
  CHECK(Json(0) < Json("a"));
}

TEST_CASE("what a value has not is refused by name", "[unit]") {
  const Json value = {{"text", "x"}, {"below", -1}};
  CHECK_THROWS_WITH(value.at("peak"), "\"peak\" is missing");
  CHECK_THROWS_WITH(value.at("text").get<std::uint64_t>(), "a number is missing");
  CHECK_THROWS_WITH(value.at("below").get<std::uint64_t>(), "a number does not fit");
  CHECK_THROWS_WITH(value.at("text").begin(), "a list is missing");
  CHECK_THROWS_WITH(Json::array().at(0), "a row is missing");
}

TEST_CASE("bytes that are no UTF-8 are replaced", "[unit]") {
  CHECK(Json("a\xff").dump() == "\"a\xef\xbf\xbd\"");
}

TEST_CASE("text that is no JSON is refused, also where it is nested too deeply", "[unit]") {
  CHECK(refusal_of("{").starts_with("parse error at line 1"));
  CHECK(refusal_of("[1] 2").starts_with("parse error"));
  CHECK(refusal_of("1e999").starts_with("number overflow"));
  CHECK(refusal_of(std::string(500, '[') + std::string(500, ']')).empty());
  CHECK(refusal_of(std::string(501, '[')) == "it is nested too deeply");
}

TEST_CASE("an object of many keys keeps their order and finds each of them", "[unit]") {
  std::string text = "{";
  for (int i = 0; i < 200; ++i)
    text += "\"key" + std::to_string(i % 150) + "\":" + std::to_string(i) + ",";
  Json json = Json::parse(text + "\"last\":null}");
  CHECK(json.size() == 151);
  CHECK(json.at("key0") == 150);  // of two the last one counts
  CHECK(json.at("key149") == 149);
  CHECK_FALSE(json.contains("key150"));
  json.erase("key0");
  json["new"] = 1;
  const Json copy = json;
  CHECK(copy.items().front().first == "key1");
  CHECK(copy.items().back().first == "new");
  CHECK_FALSE(copy.contains("key0"));
  CHECK(copy.at("key77") == 77);
}

TEST_CASE("text of JSON steers no terminal and means what it was", "[unit]") {
  const std::string text = "\x7f\xc2\x9b\xe2\x80\xae\xef\xbf\xbf\xf3\xa0\x81\x81 \xc3\xa4";
  CHECK(Json(text).dump() == R"("\u007f\u009b\u202e\uffff\udb40\udc41 )"
                             "\xc3\xa4\"");
  CHECK(Json::parse(Json(text).dump()) == text);
  CHECK(Json("a::b ::error ##[error]").dump() == R"("a::b \u003a:error \u0023#[error]")");
}

}  // namespace gpumemtrace::analyzer
