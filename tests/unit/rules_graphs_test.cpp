// SPDX-License-Identifier: Apache-2.0
// Evaluations that keep a graph for autograd, and programs that only seem to.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::rules_graphs_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;

namespace {

constexpr std::uint64_t kHidden = 32 * kMiB;
constexpr std::string_view kModules = "/lib/torch/nn/modules/module.py";
constexpr std::string_view kFunctional = "/lib/torch/nn/functional.py";

// The stacks of three lines of one layer, called from a loop in `caller`.
struct Layer {
  std::vector<std::uint32_t> lines;

  Layer(TrainingTrace& trace, std::string_view caller, std::uint16_t flags) {
    for (std::uint32_t line = 1; line <= 3; ++line) {
      lines.push_back(trace.stack({{"layer_norm", kFunctional, line},
                                   {"Block.forward", "train.py", line},
                                   {"Module._call_impl", kModules, 2},
                                   {"Net.forward", "train.py", 9},
                                   {"Module._call_impl", kModules, 2},
                                   {caller, "train.py", 7}},
                                  flags));
    }
  }
};

void wait(TrainingTrace& trace) { trace.builder().wait_until(trace.builder().now() + 100); }

// Allocates the blocks of `layers` layers and returns them: a pass keeps them to its end.
std::vector<std::uint64_t> forward(TrainingTrace& trace, const Layer& layer, int layers) {
  std::vector<std::uint64_t> kept;
  for (int i = 0; i < layers; ++i) {
    for (const std::uint32_t line : layer.lines) {
      kept.push_back(trace.take(kHidden, line));
      wait(trace);
    }
  }
  return kept;
}

void pass(TrainingTrace& trace, const Layer& layer, int layers, bool has_backward) {
  const std::vector<std::uint64_t> kept = forward(trace, layer, layers);
  if (has_backward) {
    trace.give_back(trace.take(kMiB, 0, TrainingTrace::kEngine), kMiB, 0, TrainingTrace::kEngine);
  }
  const std::uint32_t writer = has_backward ? TrainingTrace::kEngine : TrainingTrace::kMain;
  for (const std::uint64_t block : kept) trace.give_back(block, kHidden, 0, writer);
}

// A pass without a graph: each result is freed when the next one is there.
void lean_pass(TrainingTrace& trace, const Layer& layer, int layers) {
  std::uint64_t last = 0;
  for (int i = 0; i < layers; ++i) {
    for (const std::uint32_t line : layer.lines) {
      const std::uint64_t next = trace.take(kHidden, line);
      if (last != 0) trace.give_back(last, kHidden, 0);
      last = next;
    }
  }
  trace.give_back(last, kHidden, 0);
}

void train(TrainingTrace& trace, const Layer& layer, int layers) {
  pass(trace, layer, layers, true);
  const std::uint64_t update = trace.take(kMiB, trace.optimize);
  trace.give_back(update, kMiB, trace.optimize);
}

Json findings_on(TrainingTrace& trace) {
  Json found = Json::array();
  const Json report = report_of(trace.builder());
  for (const Json& finding : report.at("findings")) {
    if (finding.at("rule") == "graph_without_backward") found.push_back(finding);
  }
  return found;
}

}  // namespace

TEST_CASE("an evaluation that keeps a graph is told at the line that calls the model", "[unit]") {
  TrainingTrace trace;
  const Layer in_training(trace, "train", trace::kFlagAutograd);
  const Layer in_evaluation(trace, "evaluate", trace::kFlagAutograd);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 3; ++i) train(trace, in_training, 2);
    for (int i = 0; i < 2; ++i) pass(trace, in_evaluation, 4, false);
  }
  const Json found = findings_on(trace);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("confidence") == "inferred");
  CHECK(found[0].at("site").at("function") == "evaluate");
  CHECK(found[0].at("bytes") == 12 * kHidden);
  CHECK(found[0].at("evidence").at("count") == 12);
  CHECK(found[0].at("fix").get<std::string>().find("torch.no_grad()") != std::string::npos);
}

TEST_CASE("nothing is told of passes that keep no graph, or use it", "[unit]") {
  TrainingTrace trace;
  const Layer in_training(trace, "train", trace::kFlagAutograd);
  SECTION("a training") {
    for (int i = 0; i < 6; ++i) train(trace, in_training, 4);
  }
  SECTION("an evaluation under no_grad that keeps its results") {
    const Layer in_evaluation(trace, "evaluate", 0);
    for (int i = 0; i < 3; ++i) train(trace, in_training, 2);
    for (int i = 0; i < 2; ++i) pass(trace, in_evaluation, 4, false);
  }
  SECTION("an evaluation of frozen layers, which keeps nothing") {
    const Layer in_evaluation(trace, "evaluate", trace::kFlagAutograd);
    for (int i = 0; i < 2; ++i) lean_pass(trace, in_evaluation, 4);
  }
  SECTION("what layers work with, which goes as it came") {
    const Layer in_evaluation(trace, "evaluate", trace::kFlagAutograd);
    for (int i = 0; i < 2; ++i) {
      for (const std::uint64_t block : forward(trace, in_evaluation, 4)) {
        trace.give_back(block, kHidden, 0);
        wait(trace);
      }
    }
  }
  SECTION("keys and values that are kept") {
    Layer cache(trace, "generate", trace::kFlagAutograd);
    cache.lines.pop_back();
    for (int i = 0; i < 2; ++i) pass(trace, cache, 6, false);
  }
  SECTION("few large results of one layer, which go when it returns") {
    const Layer in_evaluation(trace, "evaluate", trace::kFlagAutograd);
    for (int i = 0; i < 2; ++i) pass(trace, in_evaluation, 2, false);
  }
  SECTION("a training whose layers work with more than they keep") {
    for (int i = 0; i < 4; ++i) {
      const std::vector<std::uint64_t> kept = forward(trace, in_training, 1);
      for (const std::uint64_t block : forward(trace, in_training, 4)) {
        trace.give_back(block, kHidden, 0);
      }
      trace.give_back(trace.take(kMiB, 0, TrainingTrace::kEngine), kMiB, 0, TrainingTrace::kEngine);
      for (const std::uint64_t block : kept) {
        trace.give_back(block, kHidden, 0, TrainingTrace::kEngine);
      }
      trace.give_back(trace.take(kMiB, trace.optimize), kMiB, trace.optimize);
    }
  }
  SECTION("an evaluation that is not what makes the peak") {
    const Layer in_evaluation(trace, "evaluate", trace::kFlagAutograd);
    for (int i = 0; i < 3; ++i) train(trace, in_training, 6);
    for (int i = 0; i < 2; ++i) pass(trace, in_evaluation, 4, false);
  }
  CHECK(findings_on(trace).empty());
}

}  // namespace gpumemtrace::rules_graphs_test
