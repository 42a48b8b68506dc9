// SPDX-License-Identifier: Apache-2.0
// Stacks of a report in the formats of flame graph viewers, and in lines of text.
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/support/report_json.hpp"
#include "tests/support/source_file.hpp"
#include "tools/export/exports.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools::flame_graphs_test {
namespace {

using analyzer::Level;
namespace rows = analyzer::rows;

rows::Frame native_frame(const char* function, const char* file, std::uint64_t line,
                         const char* module) {
  rows::Frame row;
  row.function = rows::text_or_none(function);
  row.file = rows::text_or_none(file);
  row.line = rows::number_or_none(line);
  row.module = rows::text_or_none(module);
  row.offset = 0x1234;
  return row;
}

rows::Frame python_frame(const char* function, const char* file, std::uint64_t line) {
  rows::Frame row = native_frame(function, file, line, "");
  row.language = rows::Language::kPython;
  return row;
}

rows::Cost cost(std::optional<Level> level, const char* stack, std::uint64_t peak,
                std::uint64_t copied = 0) {
  rows::Cost row;
  row.process = "p1";
  row.level = level;
  row.origin.owner = "program";
  row.origin.stack = rows::text_or_none(stack);
  row.peak_bytes = peak;
  row.allocated_bytes = 2 * peak;
  row.copied_bytes = copied;
  return row;
}

rows::Report small_report() {
  rows::Report report;
  report.processes.resize(1);
  report.processes[0].id = "p1";
  report.processes[0].pid = 4711;
  report.stacks.resize(2);
  report.stacks[0].id = "p1:1";
  report.stacks[0].frames.own = {
      native_frame("cudaMalloc", "", 0, "libcudart.so"),
      native_frame("model::grow(int)", "/src/model.cpp", 4, "libmodel.so"),
      native_frame("_PyEval_EvalFrameDefault", "", 0, "python3.12"),
      native_frame("main", "", 0, "python3.12"), python_frame("step", "/home/me/train.py", 12)};
  report.stacks[1].id = "p1:2";
  report.stacks[1].frames.own = {native_frame("", "", 0, "libtorch.so"),
                                 native_frame("a;b\n", "", 0, ""),
                                 python_frame("step", "/home/me/train.py", 12)};
  report.stacks[1].inferred_from = rows::Thread{1, "main"};
  report.costs = {cost(Level::kDriver, "p1:1", 100), cost(Level::kFramework, "p1:2", 30),
                  cost(std::nullopt, "p1:1", 0, 7)};
  return report;
}

}  // namespace

TEST_CASE("collapsed stacks begin with the outermost frame and end with the bytes", "[unit]") {
  CHECK(collapsed_stacks(small_report(), {kCostMeasures[0], "driver"}) ==
        "step (train.py:12);model::grow(int) (model.cpp:4);cudaMalloc (libcudart.so) 100\n");
}

TEST_CASE("what separates frames and lines does not stand in a name", "[unit]") {
  CHECK(collapsed_stacks(small_report(), {kCostMeasures[0], "framework"}) ==
        "step (train.py:12);a,b ;libtorch.so+0x1234 30\n");
}

TEST_CASE("no byte is counted at two levels", "[unit]") {
  rows::Report report = small_report();
  // The framework's blocks lie in driver memory, so the blocks' bytes stand for that memory.
  CHECK(collapsed_stacks(report, {kCostMeasures[0], ""}) ==
        collapsed_stacks(report, {kCostMeasures[0], "framework"}));
  report.costs.erase(report.costs.begin() + 1);
  CHECK(collapsed_stacks(report, {kCostMeasures[2], ""}).find(" 200\n") != std::string::npos);
  CHECK(collapsed_stacks(report, {kCostMeasures[1], ""}).empty());
  CHECK(collapsed_stacks(report, {kCostMeasures[3], ""}).find(" 7\n") != std::string::npos);
}

TEST_CASE("by module the frames are layers, and bytes outside a model stay", "[unit]") {
  rows::Report report = small_report();
  report.costs[1].layers = "GPT > Mlp";
  report.costs.push_back(cost(Level::kFramework, "p1:1", 5));
  CHECK(collapsed_stacks(report, {kCostMeasures[0], "framework", FrameKind::kLayers}) ==
        "(no layer) 5\nGPT;Mlp 30\n");
}

TEST_CASE("by user the frames are those of the user's own files", "[unit]") {
  rows::Report report = small_report();
  CHECK(collapsed_stacks(report, {kCostMeasures[0], "driver", FrameKind::kUsers}) ==
        "step (train.py:12);model::grow(int) (model.cpp:4) 100\n");
  report.stacks[0].frames.own.resize(1);  // only frames of the runtime are left
  CHECK(collapsed_stacks(report, {kCostMeasures[0], "driver", FrameKind::kUsers}) ==
        "program 100\n");
}

TEST_CASE("the picture says of what program it is, how long it ran, and the sum", "[unit]") {
  rows::Report report = small_report();
  report.processes[0].command = {"/usr/bin/python3", "train.py"};
  report.traces.resize(1);
  report.traces[0].process = "p1";
  report.traces[0].duration_ns = 2'500'000'000;
  const std::string picture = flame_graph_svg(report, {kCostMeasures[0], "driver"});
  CHECK(picture.find(">100 bytes in all; python3 train.py, 2.50 s: GPU memory by stack, peak "
                     "bytes") != std::string::npos);
}

TEST_CASE("stacks that differ only in what is not shown are one line", "[unit]") {
  rows::Report report = small_report();
  report.costs.push_back(cost(Level::kDriver, "p1:1", 100));
  CHECK(collapsed_stacks(report, {kCostMeasures[0], "driver"}).find(" 200\n") != std::string::npos);
}

TEST_CASE("processes of a job are told apart", "[unit]") {
  rows::Report report = small_report();
  report.processes.resize(2);
  report.processes[1].id = "p2";
  report.processes[1].pid = 4712;
  report.processes[1].rank = 1;
  report.costs.push_back(cost(Level::kDriver, "", 5));
  report.costs[3].process = "p2";
  const std::string text = collapsed_stacks(report, {kCostMeasures[0], "driver"});
  CHECK(text.find("process 4711;step") == 0);
  CHECK(text.find("process 4712 (rank 1);program 5\n") != std::string::npos);
}

TEST_CASE("a speedscope file has weights in bytes and samples from the root", "[unit]") {
  const Json file = Json::parse(speedscope_profile(small_report(), {kCostMeasures[0], "driver"}));
  CHECK(file.at("$schema") == "https://www.speedscope.app/file-format-schema.json");
  const Json profile = file.at("profiles")[0];
  CHECK(profile.at("type") == "sampled");
  CHECK(profile.at("unit") == "bytes");
  CHECK(profile.at("weights") == Json({100}));
  CHECK(profile.at("endValue") == 100);
  const Json frames = file.at("shared").at("frames");
  REQUIRE(profile.at("samples")[0].size() == 3);
  CHECK(frames[profile.at("samples")[0][0].get<std::size_t>()].at("name") == "step (train.py:12)");
  CHECK(frames[0].at("file") == "/home/me/train.py");
  CHECK(frames[0].at("line") == 12);
}

TEST_CASE("a short stack has the innermost native function and the user's frames", "[unit]") {
  const rows::Report report = small_report();
  CHECK(short_stack(report, "p1:1", 4) ==
        "cudaMalloc (libcudart.so) < model::grow (model.cpp:4) < step (train.py:12)");
  CHECK(short_stack(report, "p1:1", 1) == "cudaMalloc (libcudart.so)");
  CHECK(short_stack(report, std::nullopt, 4).empty());
  CHECK(short_stack(report, "p9:9", 4).empty());

  rows::Report with_static_runtime = report;
  auto& frames = with_static_runtime.stacks[0].frames.own;
  frames.insert(frames.begin(),
                native_frame("libcudart_static_5382377d5c772c9d", "", 0, "program"));
  CHECK(short_stack(with_static_runtime, "p1:1", 4) == short_stack(report, "p1:1", 4));
}

TEST_CASE("the example report can be exported by every cost", "[unit]") {
  std::ifstream file(tests::source_file("docs/report.example.json"));
  const rows::Report report = tests::report_of_json(Json::parse(file));
  for (const CostMeasure& measure : kCostMeasures) {
    INFO(measure.name);
    CHECK_FALSE(collapsed_stacks(report, {measure, ""}).empty());
  }
}

}  // namespace gpumemtrace::tools::flame_graphs_test
