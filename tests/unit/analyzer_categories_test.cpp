// SPDX-License-Identifier: Apache-2.0
// What framework memory is for: the roles of stacks, the rules, and whole programs.
#include "analyzer/model/program/categories.hpp"
#include "analyzer/model/program/stack_roles.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

using namespace gpumemtrace;
using namespace gpumemtrace::analyzer;
using namespace gpumemtrace::tests;

namespace {

Json framework_peak(const Json& report) {
  return row_where(report.at("peak"), {{"level", "framework"}});
}

BlockFacts block_of(Phase born_in, const Lifetime& life) {
  BlockFacts block;
  block.born_in = born_in;
  block.life = life;
  return block;
}

Lifetime outlived(bool step, bool next_step, bool freed) {
  Lifetime life;
  life.freed = freed;
  life.outlived_phase = true;
  life.outlived_step = step;
  life.outlived_next_step = next_step;
  return life;
}

constexpr std::uint64_t kWeights = 2 * kMiB;

// Two weights, a buffer, a mask that lives on, and Adam's state.
void set_up(TrainingTrace& trace) {
  for (int i = 0; i < 2; ++i) trace.upload(trace.take(kWeights, trace.move), kWeights, trace.move);
  trace.take(512, trace.move_buffer);
  trace.take(4096, trace.report_loss);
}

struct Loop {
  std::uint64_t gradients[2] = {};
  bool has_state = false;
  bool keeps_gradients = false;
};

void train_once(TrainingTrace& trace, Loop& loop) {
  const std::uint64_t input = trace.take(kMiB, trace.load);
  trace.upload(input, kMiB, trace.load);
  const std::uint64_t inside = trace.take(3 * kMiB, trace.forward);
  const std::uint64_t activation = trace.take(16 * kMiB, trace.forward);
  trace.give_back(inside, 3 * kMiB, trace.forward);
  const std::uint64_t loss = trace.take(512, trace.loss);
  if (!loop.keeps_gradients || loop.gradients[0] == 0) {
    for (std::uint64_t& gradient : loop.gradients) {
      if (gradient != 0) trace.give_back(gradient, kWeights, trace.zero_grad);
    }
    for (std::uint64_t& gradient : loop.gradients) {
      gradient = trace.take(kWeights, 0, TrainingTrace::kEngine);
    }
  }
  const std::uint64_t upstream = trace.take(5 * kMiB, 0, TrainingTrace::kEngine);
  trace.give_back(upstream, 5 * kMiB, 0, TrainingTrace::kEngine);
  trace.give_back(activation, 16 * kMiB, 0, TrainingTrace::kEngine);
  if (!loop.has_state) {
    for (int i = 0; i < 4; ++i) trace.take(kWeights, trace.optimize);
    loop.has_state = true;
  }
  const std::uint64_t update = trace.take(kMiB, trace.optimize);
  trace.give_back(update, kMiB, trace.optimize);
  trace.give_back(loss, 512, trace.report_loss);
  trace.give_back(input, kMiB, trace.report_loss);
}

void check_training(const Json& peak) {
  CHECK(peak.at("categories").at("parameter") == 2 * kWeights);
  CHECK(peak.at("categories").at("gradient") == 2 * kWeights);
  CHECK(peak.at("categories").at("optimizer_state") == 4 * kWeights);
  CHECK(peak.at("categories").at("input") == kMiB);
  CHECK(peak.at("categories").at("activation") == 16 * kMiB + 512);
  CHECK(peak.at("categories").at("unknown") == 4096);
}

}  // namespace

TEST_CASE("frames of PyTorch have roles by file and function", "[unit]") {
  CHECK(role_of_frame("Adam.step", "/x/torch/optim/adam.py") == FrameRole::kOptimizer);
  CHECK(role_of_frame("step", "/x/torch/optim/sgd.py") == FrameRole::kOptimizer);
  CHECK(role_of_frame("LRScheduler.step", "/x/torch/optim/lr_scheduler.py") == FrameRole::kNone);
  CHECK(role_of_frame("Optimizer.zero_grad", "/x/torch/optim/optimizer.py") ==
        FrameRole::kZeroGrad);
  CHECK(role_of_frame("Module._call_impl", "/x/torch/nn/modules/module.py") == FrameRole::kForward);
  CHECK(role_of_frame("Net.forward", "/home/user/net.py") == FrameRole::kForward);
  CHECK(role_of_frame("backward", "/x/torch/autograd/__init__.py") == FrameRole::kBackward);
  CHECK(role_of_frame("Module._apply", "/x/torch/nn/modules/module.py") == FrameRole::kPlacement);
  CHECK(role_of_frame("Linear.__init__", "/x/torch/nn/modules/linear.py") == FrameRole::kPlacement);
  CHECK(role_of_frame("step", "/home/user/game.py") == FrameRole::kNone);
}

TEST_CASE("the innermost frame that has a role decides", "[unit]") {
  CHECK(role_of_frames({}).phase == Phase::kNone);
  CHECK(!role_of_frames({}).has_python);
  CHECK(role_of_frames({FrameRole::kNone, FrameRole::kOptimizer}).phase == Phase::kOptimizer);
  // A loss computed in an optimizer's closure.
  CHECK(role_of_frames({FrameRole::kForward, FrameRole::kOptimizer}).phase == Phase::kForward);
  CHECK(role_of_frames({FrameRole::kNone, FrameRole::kClosure, FrameRole::kOptimizer}).phase ==
        Phase::kNone);
  // An activation recomputed for backward.
  CHECK(role_of_frames({FrameRole::kForward, FrameRole::kNone, FrameRole::kBackward}).phase ==
        Phase::kBackward);
  CHECK(role_of_frames({FrameRole::kZeroGrad, FrameRole::kOptimizer}).zero_grad);
  CHECK(role_of_frames({FrameRole::kZeroGrad, FrameRole::kOptimizer}).phase == Phase::kNone);
}

TEST_CASE("a block is what its birth and its life say", "[unit]") {
  Lifetime short_life;
  short_life.freed = true;
  CHECK(categorize(block_of(Phase::kForward, short_life)).category == Category::kTemporary);
  CHECK(categorize(block_of(Phase::kNone, short_life)).category == Category::kUnknown);
  CHECK(categorize(block_of(Phase::kForward, outlived(false, false, true))).category ==
        Category::kActivation);
  CHECK(categorize(block_of(Phase::kForward, outlived(true, true, false))).category ==
        Category::kOther);
  CHECK(categorize(block_of(Phase::kOptimizer, outlived(false, false, false))).category ==
        Category::kOptimizerState);

  BlockFacts gradient = block_of(Phase::kBackward, outlived(true, false, true));
  gradient.parameter_sized = true;
  CHECK(categorize(gradient) == Verdict{Category::kGradient, Confidence::kInferred});
  gradient.parameter_sized = false;
  CHECK(categorize(gradient) == Verdict{Category::kOther, Confidence::kHeuristic});
  gradient.life.freed_by_zero_grad = true;
  CHECK(categorize(gradient).category == Category::kGradient);

  BlockFacts placed = block_of(Phase::kNone, outlived(true, true, false));
  placed.placed = Placed::kAsParameter;
  CHECK(categorize(placed).category == Category::kParameter);
  placed.placed = Placed::kAsBuffer;
  CHECK(categorize(placed).category == Category::kOther);
}

TEST_CASE("the peak of a training program adds up by what memory is for", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  const Json report = report_of(trace.builder());
  const Json peak = framework_peak(report);
  CHECK(peak.at("step") == 1);
  check_training(peak);
  CHECK(peak.at("categories").at("other") == 512);
  CHECK(peak.at("categories").at("temporary") == 5 * kMiB);

  const Json gradient = row_where(peak.at("holders"), {{"category", "gradient"}});
  CHECK(gradient.at("bytes") == 2 * kWeights);
  CHECK(gradient.at("phase") == "backward");
  CHECK(gradient.at("category_confidence") == "inferred");
}

TEST_CASE("gradients that are kept and zeroed are gradients", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  loop.keeps_gradients = true;
  set_up(trace);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  check_training(framework_peak(report_of(trace.builder())));
}

TEST_CASE("gradients that live through the next forward are told with what they cost", "[unit]") {
  for (const bool keeps : {true, false}) {
    const TemporaryFolder folder;
    TrainingTrace trace;
    Loop loop;
    loop.keeps_gradients = keeps;
    set_up(trace);
    for (int i = 0; i < 3; ++i) train_once(trace, loop);
    const auto path = trace.builder().write(folder.path());
    const auto told = [&](const Options& options) {
      Json found = Json::array();
      const Json report = tests::analyze_json({path}, options);
      for (const Json& finding : report.at("findings")) {
        if (finding.at("rule") == "gradients_in_forward") found.push_back(finding);
      }
      return found;
    };
    CHECK(told({}).empty());  // too little by default
    Options options;
    options.thresholds.set(static_cast<std::size_t>(Threshold::kGradientBytes), 1);
    const Json found = told(options);
    REQUIRE(found.size() == (keeps ? 1 : 0));
    if (!keeps) continue;
    CHECK(found[0].at("severity") == "info");
    CHECK(found[0].at("bytes") == 2 * kWeights);
    CHECK(found[0].at("evidence").at("count") == 2);
    CHECK(found[0].at("fix").get<std::string>().find("set_to_none") != std::string::npos);
  }
}

TEST_CASE("a library's workspace that backward made is no gradient", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  trace.take(512, trace.forward);
  trace.take(32 * kMiB, 0, TrainingTrace::kEngine);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  const Json peak = framework_peak(report_of(trace.builder()));
  check_training(peak);
  CHECK(row_where(peak.at("holders"), {{"bytes", 32 * kMiB}}).at("category") == "other");
}

TEST_CASE("memory of a program that trains nothing is not told", "[unit]") {
  TrainingTrace trace;
  trace.take(kMiB, trace.load);
  trace.give_back(trace.take(2 * kMiB, trace.report_loss), 2 * kMiB, trace.report_loss);
  const Json peak = framework_peak(report_of(trace.builder()));
  CHECK(peak.at("categories").at("unknown") == 3 * kMiB);
  CHECK(peak.at("step").is_null());
}

TEST_CASE("an out-of-memory failure in forward names its activations", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  trace.take(40 * kMiB, trace.forward);
  trace.builder().framework_oom(std::uint64_t{1} << 40);
  const Json oom = report_of(trace.builder()).at("oom")[0];
  CHECK(row_where(oom.at("holders"), {{"bytes", 40 * kMiB}}).at("category") == "activation");
  CHECK(row_where(oom.at("holders"), {{"category", "gradient"}}).at("bytes") == 2 * kWeights);
}
