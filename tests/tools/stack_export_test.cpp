// SPDX-License-Identifier: Apache-2.0
// Stacks of a report in the formats of flame graph viewers, and in lines of text.
#include "tools/export/stack_export.hpp"

#include <fstream>
#include <sstream>

#include "analyzer/json/report_json.hpp"
#include "tests/catch.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

Json frame(const char* function, const char* file, int line, const char* module, const char* kind) {
  Json row = {{"function", function}, {"file", file},     {"line", line},
              {"module", module},     {"offset", 0x1234}, {"kind", kind}};
  for (const char* key : {"function", "file", "module"}) {
    if (row[key] == "") row[key] = nullptr;
  }
  if (line == 0) row["line"] = nullptr;
  return row;
}

Json cost(const char* level, const char* stack, int peak, int copied = 0) {
  return {{"process", "p1"},       {"level", level},
          {"owner", "program"},    {"site", nullptr},
          {"stack", stack},        {"peak_bytes", peak},
          {"leaked_bytes", 0},     {"allocated_bytes", 2 * peak},
          {"copied_bytes", copied}};
}

Json small_report() {
  Json report;
  report["processes"] = {{{"id", "p1"}, {"pid", 4711}, {"rank", nullptr}}};
  report["stacks"] = {
      {{"id", "p1:1"},
       {"thread", "main"},
       {"frames",
        {frame("cudaMalloc", "", 0, "libcudart.so", "native"),
         frame("model::grow(int)", "/src/model.cpp", 4, "libmodel.so", "native"),
         frame("_PyEval_EvalFrameDefault", "", 0, "python3.12", "native"),
         frame("main", "", 0, "python3.12", "native"),
         frame("step", "/home/me/train.py", 12, "", "python")}},
       {"inferred_from", nullptr}},
      {{"id", "p1:2"},
       {"thread", "pt_autograd_0"},
       {"frames",
        {frame("", "", 0, "libtorch.so", "native"), frame("a;b\n", "", 0, "", "native"),
         frame("step", "/home/me/train.py", 12, "", "python")}},
       {"inferred_from", "main"}}};
  report["costs"] = {cost("driver", "p1:1", 100), cost("framework", "p1:2", 30)};
  report["costs"].push_back(cost("", "p1:1", 0, 7));
  report["costs"][2]["level"] = nullptr;
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
  Json report = small_report();
  // The framework's blocks lie in driver memory, so they stand for it.
  CHECK(collapsed_stacks(report, {kCostMeasures[0], ""}) ==
        collapsed_stacks(report, {kCostMeasures[0], "framework"}));
  report["costs"].erase(1);
  CHECK(collapsed_stacks(report, {kCostMeasures[2], ""}).find(" 200\n") != std::string::npos);
  CHECK(collapsed_stacks(report, {kCostMeasures[1], ""}).empty());
  CHECK(collapsed_stacks(report, {kCostMeasures[3], ""}).find(" 7\n") != std::string::npos);
}

TEST_CASE("by module the frames are layers, and bytes outside a model stay", "[unit]") {
  Json report = small_report();
  report["costs"][1]["module"] = "GPT > Mlp";
  report["costs"].push_back(cost("framework", "p1:1", 5));
  CHECK(collapsed_stacks(report, {kCostMeasures[0], "framework", true}) ==
        "(no layer) 5\nGPT;Mlp 30\n");
}

TEST_CASE("stacks that differ only in what is not shown are one line", "[unit]") {
  Json report = small_report();
  report["costs"].push_back(report["costs"][0]);
  CHECK(collapsed_stacks(report, {kCostMeasures[0], "driver"}).find(" 200\n") != std::string::npos);
}

TEST_CASE("processes of a job are told apart", "[unit]") {
  Json report = small_report();
  report["processes"].push_back({{"id", "p2"}, {"pid", 4712}, {"rank", 1}});
  report["costs"].push_back(cost("driver", "", 5));
  report["costs"][3]["process"] = "p2";
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
  const Json json = small_report();
  analyzer::rows::Report report;
  for (const Json& stack : json.at("stacks")) {
    report.stacks.push_back(analyzer::stack_of_json(stack));
  }
  CHECK(short_stack(report, "p1:1", 4) ==
        "cudaMalloc (libcudart.so) < model::grow (model.cpp:4) < step (train.py:12)");
  CHECK(short_stack(report, "p1:1", 1) == "cudaMalloc (libcudart.so)");
  CHECK(short_stack(report, std::nullopt, 4).empty());
  CHECK(short_stack(report, "p9:9", 4).empty());
}

TEST_CASE("the example report can be exported by every cost", "[unit]") {
  std::ifstream file(GPUMEMTRACE_SOURCE_DIR "/docs/report.example.json");
  const Json report = Json::parse(file);
  for (const CostMeasure& measure : kCostMeasures) {
    INFO(measure.name);
    CHECK_FALSE(collapsed_stacks(report, {measure, ""}).empty());
  }
}

}  // namespace gpumemtrace::tools
