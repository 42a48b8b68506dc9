// SPDX-License-Identifier: Apache-2.0
// The categories of framework memory: the roles of stacks, the rules, and whole programs.
#include "analyzer/model/program/categories.hpp"
#include "analyzer/model/program/phases.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::analyzer_categories_test {

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

// Allocates two weights, a buffer and a mask that lives on; train_once() adds Adam's state.
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
  // Snapshots of PyTorch have frames in this form.
  CHECK(role_of_frame("torch::autograd::Engine::thread_main(int)", "??") == FrameRole::kBackward);
  CHECK(role_of_frame("forward", "net.cpp") == FrameRole::kNone);
  CHECK(role_of_frame("forward", "<user_metadata>") == FrameRole::kNone);
  CHECK(role_of_frame("step", "/x/torch/optim/sgd.py") == FrameRole::kOptimizer);
  CHECK(role_of_frame("LRScheduler.step", "/x/torch/optim/lr_scheduler.py") == FrameRole::kNone);
  CHECK(role_of_frame("Optimizer.zero_grad", "/x/torch/optim/optimizer.py") ==
        FrameRole::kZeroGrad);
  CHECK(role_of_frame("Module._call_impl", "/x/torch/nn/modules/module.py") == FrameRole::kForward);
  CHECK(role_of_frame("Net.forward", "/home/user/net.py") == FrameRole::kForward);
  CHECK(role_of_frame("backward", "/x/torch/autograd/__init__.py") == FrameRole::kBackward);
  CHECK(role_of_frame("_make_grads", "/x/torch/autograd/__init__.py") == FrameRole::kFirstGradient);
  CHECK(role_of_frame("Module._apply", "/x/torch/nn/modules/module.py") == FrameRole::kPlacement);
  CHECK(role_of_frame("Linear.__init__", "/x/torch/nn/modules/linear.py") == FrameRole::kPlacement);
  CHECK(role_of_frame("_multi_tensor_adam", "/x/torch/optim/adam.py") == FrameRole::kUpdate);
  CHECK(role_of_frame("_multi_tensor_sgd", "/x/torch/optim/sgd.py") == FrameRole::kNone);
  CHECK(role_of_frame("step", "/home/user/game.py") == FrameRole::kNone);
  CHECK(role_of_frame("Adagrad.__init__", "/x/torch/optim/adagrad.py") == FrameRole::kState);
  CHECK(role_of_frame("AveragedModel.__init__", "/x/torch/optim/swa_utils.py") == FrameRole::kNone);
  CHECK(role_of_frame("PreTrainedModel.from_pretrained",
                      "/x/site-packages/transformers/modeling_utils.py") == FrameRole::kPlacement);
  constexpr auto kCollectives = "/x/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py";
  CHECK(role_of_frame("foreach_all_gather", kCollectives) == FrameRole::kGathering);
  CHECK(role_of_frame("foreach_reduce", kCollectives) == FrameRole::kReduction);
  CHECK(role_of_frame("DistributedDataParallel._ddp_init_helper",
                      "/x/torch/nn/parallel/distributed.py") == FrameRole::kGathering);
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
  // A frame that gathers parameters belongs to the phase of the frame around it.
  const StackRole gathers = role_of_frames({FrameRole::kGathering, FrameRole::kForward});
  CHECK(gathers.phase == Phase::kForward);
  CHECK(gathers.placed == SiteRole::kAsGathered);
}

TEST_CASE("what ranks exchange is gathered, and the reduced gradient is a gradient", "[unit]") {
  Lifetime freed;
  freed.freed = true;
  BlockFacts block = block_of(Phase::kForward, freed);
  block.placed = SiteRole::kAsGathered;
  CHECK(categorize(block) == CategoryGuess{Category::kGathered, Confidence::kInferred});
  block.life = outlived(true, true, false);
  CHECK(categorize(block).category == Category::kGathered);
  block = block_of(Phase::kBackward, freed);
  block.placed = SiteRole::kAsGradient;
  CHECK(categorize(block).category == Category::kGathered);
  block.life = outlived(true, false, true);
  CHECK(categorize(block).category == Category::kGradient);
}

TEST_CASE("what stays from pass to pass is not temporary", "[unit]") {
  for (const bool has_autograd : {false, true}) {
    TrainingTrace trace;
    const std::uint32_t model =
        trace.stack({{"Net.forward", "train.py", 1},
                     {"Module._call_impl", "/lib/torch/nn/modules/module.py", 2},
                     {"main", "train.py", 3}},
                    has_autograd ? trace::kFlagAutograd : std::uint16_t{0});
    std::vector<std::uint64_t> kept;
    for (int i = 0; i < 4; ++i) {
      trace.give_back(trace.take(kMiB, trace.load), kMiB, 0);
      kept.push_back(trace.take(8 * kMiB, model));
      trace.give_back(trace.take(2 * kMiB, model), 2 * kMiB, 0);
    }
    for (const std::uint64_t block : kept) trace.give_back(block, 8 * kMiB, 0);
    const Json categories = framework_peak(report_of(trace.builder())).at("categories");
    // Without autograd, a block is temporary if it is freed before two further passes have begun,
    // as the last two kept blocks are.
    CHECK(categories.at(has_autograd ? "activation" : "unknown") ==
          (has_autograd ? 3 : 2) * 8 * kMiB);
    CHECK(categories.at("temporary") == 2 * kMiB + (has_autograd ? 1 : 2) * 8 * kMiB);
  }
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
  CHECK(categorize(gradient) == CategoryGuess{Category::kGradient, Confidence::kInferred});
  gradient.parameter_sized = false;
  CHECK(categorize(gradient) == CategoryGuess{Category::kOther, Confidence::kHeuristic});
  gradient.life.freed_by_zero_grad = true;
  CHECK(categorize(gradient).category == Category::kGradient);

  BlockFacts placed = block_of(Phase::kNone, outlived(true, true, false));
  placed.placed = SiteRole::kAsParameter;
  CHECK(categorize(placed).category == Category::kParameter);
  placed.placed = SiteRole::kAsBuffer;
  CHECK(categorize(placed).category == Category::kBuffer);
}

TEST_CASE("what was read from a file, copied and kept is loaded", "[unit]") {
  CHECK(role_of_frame("load", "/x/torch/serialization.py") == FrameRole::kLoading);
  CHECK(role_of_frame("load_file", "/x/safetensors/torch.py") == FrameRole::kLoading);
  CHECK(role_of_frames({FrameRole::kNone, FrameRole::kLoading}).loads);
  const StackRole model = role_of_frames({FrameRole::kLoading, FrameRole::kPlacement});
  CHECK_FALSE(model.loads);  // the stack of a model that loads itself
  CHECK(model.placed == SiteRole::kAsParameter);

  BlockFacts block = block_of(Phase::kNone, outlived(true, false, false));
  CHECK(categorize(block).category == Category::kUnknown);
  block.is_loaded_copy = true;
  CHECK(categorize(block) == CategoryGuess{Category::kLoaded, Confidence::kInferred});
  block.life = outlived(false, false, true);  // freed before the first step
  CHECK(categorize(block).category == Category::kUnknown);
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
  CHECK(peak.at("categories").at("buffer") == 512);
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
    CHECK(told({}).empty());  // too few bytes for the default threshold
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

// As in PyTorch's records, frees have no stack.
TEST_CASE("sparse gradients, and those of inputs, are gradients", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  constexpr std::uint64_t kRows = kWeights / 4;  // gradient of the embedding rows that a batch used
  std::uint64_t gradient = 0;
  for (int i = 0; i < 3; ++i) {
    train_once(trace, loop);
    if (gradient != 0) trace.give_back(gradient, kRows, 0);
    const std::uint64_t activation = trace.take(kMiB, trace.forward);
    gradient = trace.take(kRows, 0, TrainingTrace::kEngine);
    trace.give_back(activation, kMiB, 0, TrainingTrace::kEngine);
    if (i == 1) trace.give_back(trace.take(64 * kMiB, trace.load), 64 * kMiB, trace.load);
    trace.give_back(trace.take(kMiB, trace.optimize), kMiB, trace.optimize);
  }
  const Json peak = framework_peak(report_of(trace.builder()));
  CHECK(peak.at("categories").at("gradient") == 2 * kWeights + kRows);
}

// Each chunk of a thread's records begins with a Thread record, so one may stand between any calls.
TEST_CASE("a thread that is announced again is still the one that lets go of gradients", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  constexpr std::uint64_t kInput = kWeights / 4;
  std::uint64_t gradient = 0;
  for (int i = 0; i < 3; ++i) {
    train_once(trace, loop);
    trace.thread(TrainingTrace::kMain, TrainingTrace::kProcessId, "python3");
    if (gradient != 0) trace.give_back(gradient, kInput, 0);
    gradient = trace.take(kInput, 0, TrainingTrace::kEngine);
    if (i == 1) trace.give_back(trace.take(64 * kMiB, trace.load), 64 * kMiB, trace.load);
    trace.give_back(trace.take(kMiB, trace.optimize), kMiB, trace.optimize);
  }
  const Json peak = framework_peak(report_of(trace.builder()));
  CHECK(peak.at("categories").at("gradient") == 2 * kWeights + kInput);
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

TEST_CASE("what PyTorch takes for a new handle of cuBLAS is a workspace", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  trace.take(512, trace.forward);
  trace.make_handle(trace.forward);
  trace.take(8 * kMiB, trace.forward);
  trace.take(kMiB, trace.forward);  // the workspace of cublasLt
  train_once(trace, loop);
  trace.make_handle(0, TrainingTrace::kEngine);
  trace.take(kWeights, 0, TrainingTrace::kEngine);  // as large as a gradient
  trace.take(8 * kMiB, trace.forward);              // same handle, workspace of another stream
  for (int i = 0; i < 2; ++i) train_once(trace, loop);
  const Json peak = framework_peak(report_of(trace.builder()));
  CHECK(peak.at("categories").at("workspace") == 17 * kMiB + kWeights);
  CHECK(peak.at("categories").at("gradient") == 2 * kWeights);
  const Json given =
      row_where(peak.at("holders"), {{"category", "workspace"}, {"phase", "backward"}});
  CHECK(given.at("bytes") == kWeights);
  CHECK(given.at("category_confidence") == "inferred");
}

TEST_CASE("what follows the new handle elsewhere is no workspace", "[unit]") {
  TrainingTrace trace;
  Loop loop;
  set_up(trace);
  trace.make_handle(trace.forward);
  trace.take(8 * kMiB, trace.report_loss);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  CHECK(framework_peak(report_of(trace.builder())).at("categories").at("workspace") == 0);
}

// Trains a model after `stack` allocated `bytes`. Returns the holder of these bytes at the peak.
Json holder_of(TrainingTrace& trace, std::uint32_t stack, std::uint64_t bytes) {
  Loop loop;
  set_up(trace);
  trace.take(bytes, stack);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  const Json peak = framework_peak(report_of(trace.builder()));
  return row_where(peak.at("holders"), {{"bytes", bytes}});
}

TEST_CASE("weights of a recurrent network that are made one block are parameters", "[unit]") {
  TrainingTrace trace;
  const std::uint32_t flatten =
      trace.stack({{"RNNBase.flatten_parameters", "/lib/torch/nn/modules/rnn.py", 400},
                   {"RNNBase._apply", "/lib/torch/nn/modules/rnn.py", 30},
                   {"Module._apply", "/lib/torch/nn/modules/module.py", 20},
                   {"main", "train.py", 1}});
  CHECK(holder_of(trace, flatten, 7 * kMiB).at("category") == "parameter");
}

TEST_CASE("state that an optimizer's constructor makes is optimizer state", "[unit]") {
  TrainingTrace trace;
  const std::uint32_t build = trace.stack(
      {{"Adagrad.__init__", "/lib/torch/optim/adagrad.py", 400}, {"main", "train.py", 20}});
  CHECK(holder_of(trace, build, 7 * kMiB).at("category") == "optimizer_state");
}

TEST_CASE("constructors of the program's own optimizers and modules are known", "[unit]") {
  constexpr std::string_view kOptimizers = "/lib/torch/optim/optimizer.py";
  TrainingTrace trace;
  const auto built_by = [&](std::string_view function) {
    return trace.stack({{"helper", "own.py", 3}, {function, "own.py", 4}, {"main", "train.py", 9}});
  };
  trace.take(3 * kMiB, built_by("Lamb.__init__"));
  trace.take(kWeights, built_by("Net.__init__"));
  trace.take(5 * kMiB + 512, built_by("Net.__init__"));
  trace.take(7 * kMiB, built_by("Loader.__init__"));
  const std::uint32_t step = trace.stack(
      {{"Lamb.step", "own.py", 5},
       {"context_decorator.<locals>.decorate_context", "/lib/torch/utils/_contextlib.py"},
       {"Optimizer.profile_hook_step.<locals>.wrapper", kOptimizers, 3},
       {"main", "train.py", 7}});
  const std::uint32_t forward =
      trace.stack({{"Net.forward", "own.py", 6},
                   {"Module._call_impl", "/lib/torch/nn/modules/module.py", 2},
                   {"main", "train.py", 3}});
  Loop loop;
  set_up(trace);
  trace.give_back(trace.take(512, forward), 512, forward);
  trace.take(512, step);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  const Json holders = framework_peak(report_of(trace.builder())).at("holders");
  CHECK(row_where(holders, {{"bytes", 3 * kMiB}}).at("category") == "optimizer_state");
  // Net.__init__ made both tensors; only the one of kWeights has a gradient.
  const Json in_module = row_where(holders, {{"bytes", 5 * kMiB + 512}});
  CHECK(in_module.at("category") == "buffer");
  CHECK(in_module.at("category_confidence") == "heuristic");
  CHECK(row_where(holders, {{"category", "parameter"}, {"bytes", kWeights}}).at("count") == 1);
  CHECK(row_where(holders, {{"bytes", 7 * kMiB}}).at("category").is_null());
}

TEST_CASE("a copy of a module has its parameters and its buffers", "[unit]") {
  constexpr std::string_view kCopy = "/lib/python3.12/copy.py";
  TrainingTrace trace;
  const auto copied = [&](std::string_view function, std::string_view file, std::uint32_t caller) {
    return trace.stack({{function, file, 1},
                        {"deepcopy", kCopy, 2},
                        {"_reconstruct", kCopy, 3},
                        {"deepcopy", kCopy, 4},
                        {"main", "train.py", caller}});
  };
  trace.take(5 * kMiB, copied("Tensor.__deepcopy__", "/lib/torch/_tensor.py", 40));
  trace.take(3 * kMiB, copied("Parameter.__deepcopy__", "/lib/torch/nn/parameter.py", 40));
  trace.take(7 * kMiB, copied("Tensor.__deepcopy__", "/lib/torch/_tensor.py", 60));
  Loop loop;
  set_up(trace);
  for (int i = 0; i < 3; ++i) train_once(trace, loop);
  const Json peak = framework_peak(report_of(trace.builder()));
  const Json& holders = peak.at("holders");
  CHECK(row_where(holders, {{"bytes", 3 * kMiB}}).at("category") == "parameter");
  // The buffers are the copied tensor that is no parameter, and the one that set_up() moves to the
  // device.
  CHECK(peak.at("categories").at("buffer") == 5 * kMiB + 512);
  CHECK(row_where(holders, {{"bytes", 7 * kMiB}}).at("category").is_null());
}

TEST_CASE("a gradient in a block that is larger than its parameter's is one", "[unit]") {
  SizeSet sizes;
  sizes.insert(20 * kMiB);
  sizes.insert(4096);
  CHECK(sizes.has(20 * kMiB + 512 * 1024));
  CHECK(sizes.has(19 * kMiB + 512));
  CHECK_FALSE(sizes.has(22 * kMiB));
  CHECK(sizes.has(4096));
  CHECK_FALSE(sizes.has(4608));  // small blocks have exactly their tensor's size
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

TEST_CASE("what an out-of-memory failure lets go of is told as it was when memory ran out",
          "[unit]") {
  for (const bool survives : {false, true}) {
    TrainingTrace trace;
    const std::uint32_t update = trace.stack({{"_multi_tensor_adam", "/lib/torch/optim/adam.py", 1},
                                              {"Adam.step", "/lib/torch/optim/adam.py", 2},
                                              {"main", "train.py", 7}});
    set_up(trace);
    trace.take(8 * kMiB, trace.forward);
    for (int i = 0; i < 2; ++i) trace.take(kWeights, 0, TrainingTrace::kEngine);
    std::uint64_t states[4] = {};
    for (std::uint64_t& state : states) state = trace.take(kWeights, trace.optimize);
    const std::uint64_t square_root = trace.take(3 * kMiB, update);
    trace.builder().framework_oom(kMiB);
    for (const std::uint64_t state : states) trace.give_back(state, kWeights, 0);
    trace.give_back(square_root, 3 * kMiB, 0);
    if (survives) {
      // The program goes on: this block makes a later peak and is temporary, since it is freed at
      // once.
      trace.give_back(trace.take(40 * kMiB, trace.forward), 40 * kMiB, 0);
    }
    const Json report = report_of(trace.builder());
    Json at_oom = Json::object();
    for (const Json& holder : report.at("oom")[0].at("holders")) {
      if (holder.at("category").is_null()) continue;
      Json& bytes = at_oom[holder.at("category").get<std::string>()];
      bytes = (bytes.is_null() ? 0 : bytes.get<std::uint64_t>()) +
              holder.at("bytes").get<std::uint64_t>();
    }
    CHECK(at_oom.at("optimizer_state") == 4 * kWeights);
    CHECK(at_oom.at("temporary") == 3 * kMiB);
    const Json categories = framework_peak(report).at("categories");
    if (survives) {
      CHECK(categories.at("temporary") == 40 * kMiB);
      continue;
    }
    for (const auto& [category, bytes] : at_oom.items()) CHECK(categories.at(category) == bytes);
  }
}

}  // namespace gpumemtrace::analyzer_categories_test
