// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/recording_options.hpp"

#include <set>

#include "tests/catch.hpp"
#include "tools/base/failure.hpp"

namespace gpumemtrace::tools::recording_options_test {
namespace {

std::vector<EnvironmentVariable> parse(std::vector<std::string> arguments) {
  Program program({.name = "program", .summary = "", .version = "", .footer = ""});
  RecordingSettings settings;
  settings.add_options(program.add_command("run", ""));
  arguments.insert(arguments.begin(), "run");
  (void)program.parse(std::move(arguments));
  return settings.environment();
}

}  // namespace

TEST_CASE("every recording option has a variable of its own and says what it does", "[unit]") {
  std::set<std::string> variables;
  for (const RecordingOption& row : kRecordingOptions) {
    CAPTURE(row.flags);
    CHECK(std::string(row.variable).starts_with("GPUMEMTRACE_"));
    CHECK(variables.insert(row.variable).second);
    CHECK(std::string(row.help).size() > 10);
    const bool has_choices = std::string(row.value_name).find('|') != std::string::npos;
    CHECK((row.kind == ValueKind::kChoice) == has_choices);
    const bool takes_value = row.kind != ValueKind::kFlag && row.kind != ValueKind::kSwitch;
    CHECK(takes_value == (std::string(row.value_name) != ""));
  }
}

TEST_CASE("only options that were given become variables", "[unit]") {
  CHECK(parse({}).empty());
  const std::vector<EnvironmentVariable> variables = parse({"--force"});
  REQUIRE(variables.size() == 1);
  CHECK(variables[0].name == "GPUMEMTRACE_FORCE");
  CHECK(variables[0].value == "1");
}

TEST_CASE("a size reaches the library in bytes", "[unit]") {
  const std::vector<EnvironmentVariable> variables = parse({"--ring-size", "64MiB"});
  REQUIRE(variables.size() == 1);
  CHECK(variables[0].value == "67108864");
}

TEST_CASE("a switch reaches the library either way", "[unit]") {
  REQUIRE(parse({"--python"}).size() == 1);
  CHECK(parse({"--python"})[0].value == "1");
  REQUIRE(parse({"--no-python"}).size() == 1);
  CHECK(parse({"--no-python"})[0].name == "GPUMEMTRACE_PYTHON");
  CHECK(parse({"--no-python"})[0].value == "0");
}

TEST_CASE("a value outside an option's choices or sizes is refused", "[unit]") {
  CHECK_THROWS_AS(parse({"--on-full", "wait"}), Failure);
  CHECK_THROWS_AS(parse({"--ring-size", "much"}), Failure);
  CHECK_THROWS_AS(parse({"--native", "on"}), Failure);
  CHECK_THROWS_AS(parse({"--cupti", "on"}), Failure);
  CHECK_THROWS_AS(parse({"--stack-depth", "-1"}), Failure);
}

TEST_CASE("what to collect from CUPTI reaches the library as typed", "[unit]") {
  REQUIRE(parse({"--cupti", "full,kernels"}).size() == 1);
  CHECK(parse({"--cupti", "full,kernels"})[0].name == "GPUMEMTRACE_CUPTI");
  CHECK(parse({"--cupti", "full,kernels"})[0].value == "full,kernels");
}

TEST_CASE("an output pattern may use every known field", "[unit]") {
  CHECK_NOTHROW(check_output_pattern("traces/%h.%p.%e.%t.%n.%r.%j.%q{SLURM_PROCID}.100%%.gmt"));
  CHECK_NOTHROW(check_output_pattern("%p"));
}

TEST_CASE("a folder reaches the library with a slash at its end", "[unit]") {
  REQUIRE(parse({"-o", "/"}).size() == 1);
  CHECK(parse({"-o", "/usr"})[0].value == "/usr/");
  CHECK(parse({"-o", "/usr/"})[0].value == "/usr/");
  CHECK(parse({"-o", "no-such-folder"})[0].value == "no-such-folder");
}

TEST_CASE("an output pattern with an unknown field is refused", "[unit]") {
  for (const char* pattern : {"%z.gmt", "trace%", "%q{}.gmt", "%q{OPEN", ""}) {
    CAPTURE(pattern);
    CHECK_THROWS_AS(check_output_pattern(pattern), Failure);
  }
}

}  // namespace gpumemtrace::tools::recording_options_test
