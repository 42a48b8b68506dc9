// SPDX-License-Identifier: Apache-2.0
// The recorder's settings, from the environment.
#include "preload/base/config.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tests/catch.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::config_test {

using namespace gpumemtrace::preload;
using gpumemtrace::tests::contains;
using gpumemtrace::tests::Environment;
using gpumemtrace::tests::TemporaryFolder;

namespace {

std::optional<std::uint64_t> size_of(const char* text) {
  std::uint64_t bytes = 12345;
  if (parse_size(text, bytes)) return bytes;
  CHECK(bytes == 12345);
  return std::nullopt;
}

// The text that `call` writes to the standard error.
template <class Call>
std::string errors_of(Call&& call) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "errors").string();
  const int before = dup(2);
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  dup2(file, 2);
  call();
  dup2(before, 2);
  close(file);
  close(before);
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a size is a number with one of the units, and fits 64 bits", "[unit]") {
  CHECK(size_of("0") == 0);
  CHECK(size_of("4096") == 4096);
  CHECK(size_of("1B") == 1);
  CHECK(size_of("3KiB") == 3 * 1024);
  CHECK(size_of("3KB") == 3000);
  CHECK(size_of("64MiB") == 64 << 20);
  CHECK(size_of("64MB") == 64'000'000);
  CHECK(size_of("2GiB") == 2ull << 30);
  CHECK(size_of("2GB") == 2'000'000'000);
  CHECK(size_of("1TiB") == 1ull << 40);
  CHECK(size_of("1TB") == 1'000'000'000'000);
  CHECK(size_of("16777215TiB") == 16777215ull << 40);
  CHECK(size_of("1844674407370955160") == 1844674407370955160ull);
  for (const char* text : {"", "B", "MiB", "-1", "+1", " 1", "1 ", "1 MiB", "1mib", "1M", "1.5GiB",
                           "0x10", "16777216TiB", "99999999999999999999", "1MiBB"}) {
    CAPTURE(text);
    CHECK(size_of(text) == std::nullopt);
  }
}

TEST_CASE("a variable is found by its whole name", "[unit]") {
  const Environment variables({{"GPUMEMTRACE_OUTPUT_OLD", "a"}, {"GPUMEMTRACE_OUT", "b"}});
  CHECK(environment("GPUMEMTRACE_OUTPUT").empty());
  CHECK(environment("GPUMEMTRACE_OUT") == "b");
  CHECK(environment("GPUMEMTRACE_OUTPUT_OLD") == "a");
}

TEST_CASE("without variables a recording has the documented defaults", "[unit]") {
  const Environment none({});
  Config config;
  CHECK(errors_of([&] { config = read_config(); }).empty());
  CHECK(config.output_pattern.empty());
  CHECK(config.ring_bytes == 64 << 20);
  CHECK(config.max_trace_bytes == 4ull << 30);
  CHECK(config.on_full == OnFull::kDrop);
  CHECK_FALSE(config.force);
  CHECK_FALSE(config.start_paused);
  CHECK_FALSE(config.hash_copies);
  CHECK(config.python_stacks);
  CHECK(config.native_stacks == NativeStacks::kAuto);
  CHECK(config.stack_depth == 64);
}

TEST_CASE("each variable sets what it names", "[unit]") {
  const Environment variables({{"GPUMEMTRACE_OUTPUT", "traces/%p"},
                               {"GPUMEMTRACE_RING_SIZE", "128MiB"},
                               {"GPUMEMTRACE_MAX_TRACE_BYTES", "1GB"},
                               {"GPUMEMTRACE_ON_FULL", "block"},
                               {"GPUMEMTRACE_FORCE", "1"},
                               {"GPUMEMTRACE_START_PAUSED", "yes"},
                               {"GPUMEMTRACE_HASH_COPIES", "true"},
                               {"GPUMEMTRACE_PYTHON", "0"},
                               {"GPUMEMTRACE_NATIVE", "full"},
                               {"GPUMEMTRACE_STACK_DEPTH", "100"}});
  Config config;
  CHECK(errors_of([&] { config = read_config(); }).empty());
  CHECK(config.output_pattern == "traces/%p");
  CHECK(config.ring_bytes == 128 << 20);
  CHECK(config.max_trace_bytes == 1'000'000'000);
  CHECK(config.on_full == OnFull::kBlock);
  CHECK(config.force);
  CHECK(config.start_paused);
  CHECK(config.hash_copies);
  CHECK_FALSE(config.python_stacks);
  CHECK(config.native_stacks == NativeStacks::kFull);
  CHECK(config.stack_depth == 100);
}

TEST_CASE("0, false, no, off and nothing switch off, in capitals too", "[unit]") {
  for (const char* value : {"0", "false", "False", "no", "NO", "off", "OFF", ""}) {
    CAPTURE(value);
    const Environment variables({{"GPUMEMTRACE_FORCE", value}});
    CHECK_FALSE(read_config().force);
  }
  const Environment variables({{"GPUMEMTRACE_NATIVE", "off"}, {"GPUMEMTRACE_PYTHON", ""}});
  CHECK(read_config().native_stacks == NativeStacks::kNone);
  CHECK(read_config().python_stacks);
}

TEST_CASE("a value that makes no sense is named with what to write, and the default holds",
          "[unit]") {
  const Environment variables({{"GPUMEMTRACE_RING_SIZE", "much"},
                               {"GPUMEMTRACE_ON_FULL", "wait"},
                               {"GPUMEMTRACE_NATIVE", "on"},
                               {"GPUMEMTRACE_STACK_DEPTH", "-1"}});
  Config config;
  const std::string errors = errors_of([&] { config = read_config(); });
  CHECK(config.ring_bytes == 64 << 20);
  CHECK(config.on_full == OnFull::kDrop);
  CHECK(config.native_stacks == NativeStacks::kAuto);
  CHECK(config.stack_depth == 64);
  CHECK(contains(errors,
                 "gpumemtrace: GPUMEMTRACE_RING_SIZE=much is no size; use bytes or a unit, "
                 "such as 64MiB.\n"));
  CHECK(contains(errors, "GPUMEMTRACE_ON_FULL=wait is neither drop nor block; using drop.\n"));
  CHECK(contains(errors, "GPUMEMTRACE_NATIVE=on is none of off, auto and full; using auto.\n"));
  CHECK(contains(errors, "GPUMEMTRACE_STACK_DEPTH=-1 is no size"));
}

TEST_CASE("sizes that cannot work become the nearest that can", "[unit]") {
  const Environment small({{"GPUMEMTRACE_RING_SIZE", "1"}, {"GPUMEMTRACE_MAX_TRACE_BYTES", "0"}});
  const Config least = read_config();
  CHECK(least.max_trace_bytes == 256 << 10);
  const Environment large({{"GPUMEMTRACE_RING_SIZE", "17GiB"}});
  CHECK(read_config().ring_bytes == 16ull << 30);
  // An allowed value stays as it is.
  const std::string least_ring = std::to_string(least.ring_bytes);
  const Environment exact(
      {{"GPUMEMTRACE_RING_SIZE", least_ring.c_str()}, {"GPUMEMTRACE_MAX_TRACE_BYTES", "256KiB"}});
  CHECK(least.ring_bytes > 1);
  CHECK(read_config().ring_bytes == least.ring_bytes);
  CHECK(read_config().max_trace_bytes == 256 << 10);
}

TEST_CASE("a quiet recorder does not complain either", "[unit]") {
  const Environment variables({{"GPUMEMTRACE_QUIET", "1"}, {"GPUMEMTRACE_RING_SIZE", "much"}});
  // A child process reads the settings, because GPUMEMTRACE_QUIET silences a process for good.
  const std::string errors = errors_of([] {
    const pid_t child = fork();
    if (child == 0) {
      (void)read_config();
      _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  });
  CHECK(errors == "");
}

}  // namespace gpumemtrace::config_test
