// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_environment.hpp"

#include <cstdlib>

#include "tests/catch.hpp"
#include "tools/base/shell_words.hpp"

namespace gpumemtrace::tools::launch_environment_test {
namespace {

// Sets an environment variable for one test and restores its former value.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* const before = std::getenv(name);
    had_value_ = before != nullptr;
    if (had_value_) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (had_value_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  bool had_value_ = false;
  std::string before_;
};

}  // namespace

TEST_CASE("the runtime of AddressSanitizer stays the first library", "[unit]") {
  const ScopedVariable variable("LD_PRELOAD", "/lib/libasan.so.8:/lib/other.so");
  CHECK(preload_variable("/lib/ours.so").value == "/lib/libasan.so.8:/lib/other.so:/lib/ours.so");
}

TEST_CASE("an NVTX tool that is there already is handed on", "[unit]") {
  const ScopedVariable variable("NVTX_INJECTION64_PATH", "/lib/other.so");
  const std::vector<EnvironmentVariable> variables = nvtx_variables("/lib/ours.so");
  REQUIRE(variables.size() == 2);
  CHECK(variables[0].value == "/lib/ours.so");
  CHECK(variables[1].name == "GPUMEMTRACE_NVTX_CHAIN");
  CHECK(variables[1].value == "/lib/other.so");
}

TEST_CASE("our own library is no other NVTX tool", "[unit]") {
  const ScopedVariable variable("NVTX_INJECTION64_PATH", "/lib/ours.so");
  CHECK(nvtx_variables("/lib/ours.so").size() == 1);
}

TEST_CASE("the recording library is preloaded before what is there already", "[unit]") {
  const ScopedVariable variable("LD_PRELOAD", "/lib/other.so");
  CHECK(preload_variable("/lib/ours.so").value == "/lib/ours.so:/lib/other.so");
}

TEST_CASE("the recording library is not preloaded twice", "[unit]") {
  const ScopedVariable variable("LD_PRELOAD", "/lib/other.so /lib/ours.so");
  CHECK(preload_variable("/lib/ours.so").value == "/lib/other.so /lib/ours.so");
}

TEST_CASE("the simulated driver's folder comes first even where it stands further behind",
          "[unit]") {
  const ScopedVariable variable("LD_LIBRARY_PATH", "/usr/lib:/sim");
  CHECK(library_path_variable("/sim").value == "/sim:/usr/lib:/sim");
}

TEST_CASE("a shell word is quoted only where it must be", "[unit]") {
  CHECK(shell_word("traces/%e.%h.gmt") == "traces/%e.%h.gmt");
  CHECK(shell_word("two words") == "'two words'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$HOME") == "'$HOME'");
  CHECK(shell_word("").size() == 2);
  CHECK(shell_word("a\n\x1b'\xe9") == R"($'a\x0a\x1b\x27\xe9')");
}

}  // namespace gpumemtrace::tools::launch_environment_test
