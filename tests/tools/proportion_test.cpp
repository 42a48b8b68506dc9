// SPDX-License-Identifier: Apache-2.0
// Commands take time and memory in proportion to their input: twice as much of anything in it takes
// at most 2.3 times the processor time and the memory.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/analyze.hpp"
#include "analyzer/replay/packing.hpp"
#include "tests/catch.hpp"
#include "tests/support/stack_records.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/trace_builder.hpp"
#include "tools/base/failure.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/diff/difference.hpp"
#include "tools/export/exports.hpp"
#include "tools/page/report_page.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/summary/summary_text.hpp"

namespace gpumemtrace::tools::proportion_test {
namespace {

namespace fs = std::filesystem;
using tests::TraceBuilder;

constexpr double kMost = 2.3;

struct Taken {
  double seconds = 0;  // processor time
  double kilobytes = 0;
};

// The processor time and the memory of a child process that does the work and ends.
Taken taken_by(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  struct rusage usage = {};
  REQUIRE(wait4(child, &status, 0, &usage) == child);
  REQUIRE(status == 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), static_cast<double>(usage.ru_maxrss)};
}

Taken operator-(const Taken& a, const Taken& b) {
  return {a.seconds - b.seconds, a.kilobytes - b.kilobytes};
}
Taken least_of(const Taken& a, const Taken& b) {
  return {std::min(a.seconds, b.seconds), std::min(a.kilobytes, b.kilobytes)};
}

// The megabyte is allowed because the memory allocator itself may take that much more or less.
bool are_proportional(const Taken& once, const Taken& twice) {
  return twice.seconds <= kMost * once.seconds && twice.kilobytes <= kMost * once.kilobytes + 1024;
}

// Makes inputs of no, `units` and twice `units` parts, and has `read` read each of them several
// times. The least time and memory count, because other processes can only make them larger.
void check_proportion(std::uint64_t units,
                      const std::function<fs::path(const fs::path&, std::uint64_t)>& make,
                      const std::function<void(const fs::path&)>& read) {
  const tests::TemporaryFolder folder(tests::place_in_memory());
  std::vector<fs::path> inputs;
  for (const std::uint64_t count : {std::uint64_t{0}, units, 2 * units}) {
    const fs::path place = folder.path() / std::to_string(count);
    fs::create_directory(place);
    inputs.push_back(make(place, count));
  }
  constexpr int kAttempts = 15;
  Taken none{1e9, 1e9};
  Taken once = none;
  Taken twice = none;
  for (int i = 0; i < kAttempts; ++i) {
    none = least_of(none, taken_by([&] { read(inputs[0]); }));
    once = least_of(once, taken_by([&] { read(inputs[1]); }));
    twice = least_of(twice, taken_by([&] { read(inputs[2]); }));
    if (are_proportional(once - none, twice - none)) break;
  }
  INFO("seconds: " << none.seconds << ", " << once.seconds << ", " << twice.seconds);
  INFO("kilobytes: " << none.kilobytes << ", " << once.kilobytes << ", " << twice.kilobytes);
  CHECK(are_proportional(once - none, twice - none));
}

// Makes all that commands make of a trace.
void read_traces(const fs::path& input) {
  analyzer::Options options;
  options.symbols.enabled = false;
  options.what_if.emplace();
  options.logged_allocations = 1000;
  const analyzer::rows::Report report = analyzer::analyze({input}, options);
  (void)report_page(report);
  (void)summary_text(report);
  Policy policy;
  apply_policy_text("max-leak = 0\nfail-on = any\n", "test", policy);
  const Verdict verdict = judge(report, policy, {}, nullptr);
  (void)verdict_text(verdict, {input});
  (void)verdict_sarif(verdict, "/src");
  (void)compare_jobs(report, report);
  (void)sqlite_database(report, "");
  (void)memory_viz_snapshot(report, report.processes.front().id, analyzer::Level::kDriver, 0);
}

fs::path one_trace(const fs::path& place, std::uint64_t units,
                   const std::function<void(TraceBuilder&, std::uint64_t)>& add) {
  TraceBuilder trace;
  trace.allocate(0x10000000, 1 << 20);
  for (std::uint64_t i = 0; i < units; ++i) add(trace, i);
  return trace.write(place);
}

void check_records(std::uint64_t units,
                   const std::function<void(TraceBuilder&, std::uint64_t)>& add,
                   const std::function<void(const fs::path&)>& read = read_traces) {
  check_proportion(
      units,
      [&](const fs::path& place, std::uint64_t count) { return one_trace(place, count, add); },
      read);
}

}  // namespace

TEST_CASE("what a report takes is proportional to its keys", "[unit]") {
  check_proportion(
      20000,
      [](const fs::path& place, std::uint64_t keys) {
        std::string text = R"({"format":"gpumemtrace-report","version":1)";
        for (std::uint64_t i = 0; i < keys; ++i) text += ",\"key" + std::to_string(i) + "\":1";
        std::ofstream(place / "report.json") << text << "}";
        return place / "report.json";
      },
      [](const fs::path& report) {
        try {
          (void)load_report({report}, {});
        } catch (const Failure&) {
          return;  // refused: the file has no section of a report
        }
      });
}

TEST_CASE("what a trace takes is proportional to its devices", "[unit]") {
  const auto add = [](TraceBuilder& trace, std::uint64_t i) {
    trace::Allocation allocation;
    allocation.address = (i + 2) << 32;
    allocation.bytes = 4096;
    allocation.memory = trace::MemoryKind::kDevice;
    allocation.location = static_cast<std::int32_t>(i);
    trace.add_call(allocation, {});
  };
  // A trace can have 1,024 devices; the allocations on further ones have no device.
  check_records(1100, add, [](const fs::path& input) {
    analyzer::Options options;
    options.symbols.enabled = false;
    (void)summary_text(analyzer::analyze({input}, options));
  });
}

TEST_CASE("what a trace takes is proportional to its records of devices", "[unit]") {
  check_records(20000, [](TraceBuilder& trace, std::uint64_t i) {
    trace.device(static_cast<std::int32_t>(i), i, 1 << 30);
  });
}

TEST_CASE("what a trace takes is proportional to its modules, its stacks and what is live",
          "[unit]") {
  check_records(5000, [](TraceBuilder& trace, std::uint64_t i) {
    if (i == 0) tests::add_code(trace, 1, "train", "/home/user/train.py");
    const std::uint64_t begin = 0x7f00'0000'0000 + (i << 20);
    const auto stack = static_cast<std::uint32_t>(i + 1);
    tests::add_module(trace, "/nowhere/libcudart.so." + std::to_string(i), "", {begin});
    tests::add_stack(trace, stack, {{1}, {begin + 0x100}});
    tests::allocate_at(trace, (i + 2) << 32, 4096, stack);
  });
}

TEST_CASE("a stack with a high number takes no more memory than one with a low number", "[unit]") {
  const auto taken_with = [](std::uint32_t stack) {
    const tests::TemporaryFolder folder(tests::place_in_memory());
    TraceBuilder trace;
    tests::add_code(trace, 1, "train", "/home/user/train.py");
    tests::add_stack(trace, stack, {{1}, {}});
    tests::allocate_at(trace, std::uint64_t{1} << 32, 4096, stack);
    const fs::path input = trace.write(folder.path());
    return taken_by([&] { read_traces(input); }).kilobytes;
  };
  // KiB that the memory allocator itself may take more or less.
  constexpr double kAllocators = 4096;
  CHECK(taken_with(4'000'000) <= taken_with(1) + kAllocators);
}

TEST_CASE("what a trace takes is proportional to its pools", "[unit]") {
  check_records(5000, [](TraceBuilder& trace, std::uint64_t i) {
    trace::Allocation allocation;
    allocation.address = (i + 2) << 32;
    allocation.bytes = 4096;
    allocation.memory = trace::MemoryKind::kStreamOrdered;
    allocation.pool = 0x5000 + i * 16;
    trace.add_call(allocation, {});
  });
}

TEST_CASE("what a folder takes is proportional to its traces", "[unit]") {
  check_proportion(
      60,
      [](const fs::path& place, std::uint64_t count) {
        for (std::uint64_t i = 0; i <= count; ++i) {
          TraceBuilder trace(static_cast<std::uint32_t>(100 + i));
          trace.device(0, 7, 1 << 30);
          for (std::uint64_t k = 1; k < 50; ++k) trace.allocate(k << 32, 4096 * k);
          (void)trace.write(place);
        }
        return place;
      },
      read_traces);
}

TEST_CASE("what one card takes is proportional to the processes on it", "[unit]") {
  check_proportion(
      200,
      [](const fs::path& place, std::uint64_t count) {
        for (std::uint64_t i = 0; i <= count; ++i) {
          TraceBuilder trace(static_cast<std::uint32_t>(100 + i));
          trace.device(0, 7, 1 << 30);
          for (std::uint64_t k = 1; k < 10; ++k) trace.allocate(k << 32, 4096 * k);
          (void)trace.write(place);
        }
        return place;
      },
      [](const fs::path& input) { (void)summary_text(load_printable_report({input}, {})); });
}

TEST_CASE("packing takes time in proportion to the blocks, or is given up", "[unit]") {
  using analyzer::replay::Lifetime;
  using analyzer::replay::packed_height;
  CHECK(packed_height(std::vector<Lifetime>(5'000, {1, 0, 10})) == 5'000);
  CHECK(packed_height(std::vector<Lifetime>(20'000, {1, 0, 10})) == std::nullopt);
  std::vector<Lifetime> in_turn;
  for (std::uint64_t i = 0; i < 50'000; ++i) in_turn.push_back({1, i, i + 10});
  CHECK(packed_height(std::move(in_turn)) == 10);
}

}  // namespace gpumemtrace::tools::proportion_test
