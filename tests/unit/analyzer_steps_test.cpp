// SPDX-License-Identifier: Apache-2.0
// Training steps from each source that shows them, ranges, and the measures of both.
#include "analyzer/model/program/steps.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::analyzer_steps_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;
using trace::AnnotationOperation;
using trace::AnnotationSource;

namespace {

// One training iteration; zero_grad of the next iteration frees its gradient.
void train_once(TrainingTrace& trace, std::uint64_t& gradient) {
  const std::uint64_t input = trace.take(1 * kMiB, trace.load);
  trace.upload(input, 1 * kMiB, trace.load);
  const std::uint64_t activation = trace.take(8 * kMiB, trace.forward);
  const std::uint64_t loss = trace.take(512, trace.loss);
  if (gradient != 0) trace.give_back(gradient, 2 * kMiB, trace.zero_grad);
  gradient = trace.take(2 * kMiB, 0, TrainingTrace::kEngine);
  trace.give_back(activation, 8 * kMiB, 0, TrainingTrace::kEngine);
  const std::uint64_t temporary = trace.take(4 * kMiB, trace.optimize);
  trace.give_back(temporary, 4 * kMiB, trace.optimize);
  trace.give_back(loss, 512, trace.report_loss);
  trace.give_back(input, 1 * kMiB, trace.report_loss);
}

std::vector<std::uint64_t> indexes(const Json& rows) {
  std::vector<std::uint64_t> result;
  for (const Json& row : rows) result.push_back(row.at("index").get<std::uint64_t>());
  return result;
}

void allocate_and_free(TraceBuilder& trace, std::uint64_t bytes) {
  trace.allocate(0x200000000, bytes);
  trace.free(0x200000000);
}

}  // namespace

TEST_CASE("the program's own steps have their numbers and what happened in them", "[unit]") {
  TraceBuilder trace;
  trace::Annotation step;
  step.operation = AnnotationOperation::kStep;
  step.source = AnnotationSource::kApi;
  trace.allocate(0x100000000, 3 * kMiB);
  for (step.value = 5; step.value < 8; ++step.value) {
    trace.add(step);
    allocate_and_free(trace, step.value * kMiB);
  }
  const Json report = report_of(trace);
  const Json& steps = report.at("steps");
  REQUIRE(indexes(steps) == std::vector<std::uint64_t>{5, 6, 7});
  CHECK(steps[0].at("source") == "api");
  CHECK(steps[0].at("inferred") == false);
  CHECK(steps[0].at("peak_bytes") == 8 * kMiB);
  CHECK(steps[0].at("live_bytes_at_end") == 3 * kMiB);
  CHECK(steps[0].at("allocations") == 1);
  CHECK(steps[0].at("end_ns") == steps[1].at("start_ns"));
  CHECK(steps[2].at("end_ns").is_null());
  CHECK(row_where(report.at("peak"), {{"level", "driver"}}).at("step") == 7);
}

TEST_CASE("a step begins with what is live, even if it only falls", "[unit]") {
  TraceBuilder trace;
  trace::Annotation step;
  step.operation = AnnotationOperation::kStep;
  trace.allocate(0x100000000, 3 * kMiB);
  trace.add(step);
  trace.free(0x100000000);
  const Json steps = report_of(trace).at("steps");
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].at("peak_bytes") == 3 * kMiB);
  CHECK(steps[0].at("live_bytes_at_end") == 0);
}

TEST_CASE("steps count the bytes that were copied in them", "[unit]") {
  TrainingTrace trace;
  trace.annotate(AnnotationOperation::kStep, {}, 0);
  trace.upload(trace.take(512, trace.load), 500, trace.load);
  trace.annotate(AnnotationOperation::kStep, {}, 1);
  const Json steps = report_of(trace.builder()).at("steps");
  CHECK(steps[0].at("transfers_bytes") == 500);
  CHECK(steps[1].at("transfers_bytes") == 0);
}

TEST_CASE("ranges nest on each thread and may overlap over the process", "[unit]") {
  TrainingTrace trace;
  trace.annotate(AnnotationOperation::kPush, "outer");
  trace.annotate(AnnotationOperation::kPush, "other thread", 0, AnnotationSource::kApi,
                 TrainingTrace::kEngine);
  trace.annotate(AnnotationOperation::kStart, "process", 77, AnnotationSource::kNvtx);
  trace.annotate(AnnotationOperation::kPush, "inner");
  const std::uint64_t block = trace.take(4 * kMiB, trace.forward);
  trace.annotate(AnnotationOperation::kPop);
  trace.give_back(block, 4 * kMiB, trace.forward);
  trace.annotate(AnnotationOperation::kEnd, {}, 77, AnnotationSource::kNvtx,
                 TrainingTrace::kEngine);
  trace.annotate(AnnotationOperation::kPop);
  trace.annotate(AnnotationOperation::kPop);  // a pop without a push
  const Json ranges = report_of(trace.builder()).at("ranges");
  REQUIRE(ranges.size() == 4);
  const Json inner = row_where(ranges, {{"name", "inner"}});
  CHECK(inner.at("peak_bytes") == 4 * kMiB);
  CHECK(inner.at("live_bytes_at_end") == 4 * kMiB);
  CHECK(inner.at("allocations") == 1);
  const Json outer = row_where(ranges, {{"name", "outer"}});
  CHECK(outer.at("start_ns") < inner.at("start_ns"));
  CHECK(inner.at("end_ns") < outer.at("end_ns"));
  CHECK(outer.at("live_bytes_at_end") == 0);
  CHECK(row_where(ranges, {{"name", "process"}}).at("peak_bytes") == 4 * kMiB);
  CHECK(row_where(ranges, {{"name", "other thread"}}).at("end_ns").is_null());
}

TEST_CASE("ranges of one name are summed, also those that are not told one by one", "[unit]") {
  TrainingTrace trace;
  for (std::uint64_t i = 0; i < 1200; ++i) {
    trace.annotate(AnnotationOperation::kPush, "work");
    const std::uint64_t block = trace.take(i == 600 ? 8 * kMiB : kMiB, trace.forward);
    if (i != 7) trace.give_back(block, i == 600 ? 8 * kMiB : kMiB, trace.forward);
    trace.annotate(AnnotationOperation::kPop);
  }
  const std::uint64_t kept = trace.take(2 * kMiB, trace.load);
  trace.annotate(AnnotationOperation::kPush, "clean");
  trace.give_back(kept, 2 * kMiB, trace.load);
  const Json report = report_of(trace.builder());
  CHECK(report.at("ranges").size() < 1100);
  const Json& sums = report.at("ranges_by_name");
  REQUIRE(sums.size() == 2);
  CHECK(sums[0].at("name") == "work");
  CHECK(sums[0].at("count") == 1200);
  CHECK(sums[0].at("peak_bytes") == 9 * kMiB);
  CHECK(sums[0].at("allocated_bytes") == 1207 * kMiB);
  CHECK(sums[0].at("live_delta_bytes") == kMiB);
  CHECK(sums[1].at("name") == "clean");
  CHECK(sums[1].at("live_delta_bytes").dump() == "-2097152");
}

TEST_CASE("of very many names the further ones are one row", "[unit]") {
  TrainingTrace trace;
  for (int i = 0; i < 1003; ++i) {
    trace.annotate(AnnotationOperation::kPush, "range " + std::to_string(i));
    trace.annotate(AnnotationOperation::kPop);
  }
  const Json sums = report_of(trace.builder()).at("ranges_by_name");
  CHECK(sums.size() == 1001);
  CHECK(row_where(sums, {{"name", nullptr}}).at("count") == 3);
}

TEST_CASE("marks of the program, of NVTX and of ctl are in the report", "[unit]") {
  TrainingTrace trace;
  trace.annotate(AnnotationOperation::kMark, "begin");
  trace.take(kMiB, trace.load);
  trace::Mark mark;
  mark.mark = trace::MarkKind::kUser;
  trace.builder().add(mark, 0, "after warm-up");
  trace.annotate(AnnotationOperation::kMark, "end", 0, AnnotationSource::kNvtx);
  const Json marks = report_of(trace.builder()).at("marks");
  REQUIRE(marks.size() == 3);
  CHECK(marks[0].at("name") == "begin");
  CHECK(marks[0].at("source") == "api");
  CHECK(marks[1].at("name") == "after warm-up");
  CHECK(marks[1].at("source") == "ctl");
  CHECK(marks[2].at("source") == "nvtx");
  CHECK(marks[0].at("time_ns") < marks[1].at("time_ns"));
  CHECK(marks[1].at("time_ns") < marks[2].at("time_ns"));
}

TEST_CASE("of very many marks the first and the last ones are told", "[unit]") {
  TrainingTrace trace;
  for (int i = 0; i < 1203; ++i) {
    trace.annotate(AnnotationOperation::kMark, "mark " + std::to_string(i));
  }
  const Json report = report_of(trace.builder());
  const Json& marks = report.at("marks");
  REQUIRE(marks.size() == 1000);
  CHECK(marks[499].at("name") == "mark 499");
  CHECK(marks[500].at("name") == "mark 703");
  CHECK(loss_of(report, "marks_left_out") == 203);
}

TEST_CASE("ranges of a thread end with it", "[unit]") {
  TrainingTrace trace;
  trace.annotate(AnnotationOperation::kPush, "left open", 0, AnnotationSource::kApi,
                 TrainingTrace::kEngine);
  trace.thread(TrainingTrace::kEngine, 555, "next");
  trace.annotate(AnnotationOperation::kPop, {}, 0, AnnotationSource::kApi, TrainingTrace::kEngine);
  const Json ranges = report_of(trace.builder()).at("ranges");
  REQUIRE(ranges.size() == 1);
  CHECK(!ranges[0].at("end_ns").is_null());
}

TEST_CASE("NVTX ranges that are named like steps are steps", "[unit]") {
  TrainingTrace trace;
  for (const char* name : {"ProfilerStep#3", "ProfilerStep#4"}) {
    trace.annotate(AnnotationOperation::kPush, name, 0, AnnotationSource::kNvtx);
    trace.take(kMiB, trace.forward);
    trace.annotate(AnnotationOperation::kPop, {}, 0, AnnotationSource::kNvtx);
    trace.take(kMiB, trace.forward);
  }
  const Json report = report_of(trace.builder());
  CHECK(indexes(report.at("steps")) == std::vector<std::uint64_t>{3, 4});
  CHECK(report.at("steps")[0].at("source") == "nvtx");
  CHECK(report.at("steps")[0].at("allocations") == 1);
  CHECK(report.at("ranges").size() == 2);
}

TEST_CASE("names of steps have a number and a known word", "[unit]") {
  using analyzer::step_number_of;
  CHECK(step_number_of("ProfilerStep#12") == 12);
  CHECK(step_number_of("iteration 7") == 7);
  CHECK(step_number_of("train_step_9") == 9);
  CHECK(step_number_of("Step: 0") == 0);
  CHECK(step_number_of("iter3") == 3);
  CHECK(!step_number_of("forward 3"));
  CHECK(!step_number_of("step"));
  CHECK(!step_number_of("step#"));
  CHECK(!step_number_of("step#3 of 9"));
  CHECK(!step_number_of("step#99999999999999999999"));
  CHECK(!step_number_of(""));
}

TEST_CASE("the end of the optimizer ends a step", "[unit]") {
  TrainingTrace trace;
  std::uint64_t gradient = 0;
  trace.take(2 * kMiB, trace.move);
  for (int i = 0; i < 4; ++i) train_once(trace, gradient);
  const Json steps = report_of(trace.builder()).at("steps");
  REQUIRE(indexes(steps) == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(steps[1].at("source") == "optimizer");
  CHECK(steps[1].at("allocations") == 5);
  CHECK(steps[1].at("transfers_bytes") == kMiB);
  CHECK(!steps[3].at("end_ns").is_null());
}

TEST_CASE("a training that ends with its optimizer has made the last step", "[unit]") {
  TrainingTrace trace;
  trace.take(2 * kMiB, trace.move);
  for (int i = 0; i < 3; ++i) {
    trace.give_back(trace.take(8 * kMiB, trace.forward), 8 * kMiB, 0);
    trace.take(512, 0, TrainingTrace::kEngine);
    trace.take(512, trace.optimize);
  }
  const Json steps = report_of(trace.builder()).at("steps");
  CHECK(indexes(steps) == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(steps[2].at("end_ns").is_null());
}

TEST_CASE("two optimizers in a row end one step", "[unit]") {
  TrainingTrace trace;
  for (int i = 0; i < 3; ++i) {
    trace.take(512, trace.forward);
    trace.take(512, 0, TrainingTrace::kEngine);
    trace.take(512, trace.optimize);
    trace.take(512, trace.report_loss);
    trace.take(512, trace.optimize);
    trace.take(512, trace.report_loss);
  }
  CHECK(report_of(trace.builder()).at("steps").size() == 3);
}

TEST_CASE("an optimizer that allocates nothing is seen by the gradients that go", "[unit]") {
  TrainingTrace trace;
  std::uint64_t gradient = 0;
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t activation = trace.take(8 * kMiB, trace.forward);
    if (gradient != 0) trace.give_back(gradient, 2 * kMiB, trace.zero_grad);
    gradient = trace.take(2 * kMiB, 0, TrainingTrace::kEngine);
    trace.give_back(activation, 8 * kMiB, 0, TrainingTrace::kEngine);
  }
  // The first zero_grad frees nothing: the second one, in forward, ends the first step.
  CHECK(report_of(trace.builder()).at("steps").size() == 5);
}

TEST_CASE("gradients that go show an optimizer also where frees have no stack", "[unit]") {
  TrainingTrace trace;
  std::uint64_t gradient = 0;
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t activation = trace.take(8 * kMiB, trace.forward);
    if (gradient != 0) trace.give_back(gradient, 2 * kMiB, 0);
    gradient = trace.take(2 * kMiB, 0, TrainingTrace::kEngine);
    trace.give_back(activation, 8 * kMiB, 0, TrainingTrace::kEngine);
  }
  // The first zero_grad frees nothing: the second one, in forward, ends the first step.
  CHECK(report_of(trace.builder()).at("steps").size() == 5);
}

TEST_CASE("an optimizer that was seen once and works in place has a step for each backward",
          "[unit]") {
  TrainingTrace trace;
  trace.upload(trace.take(2 * kMiB, trace.move), 2 * kMiB, trace.move);
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t activation = trace.take(8 * kMiB, trace.forward);
    // This gradient stays, and is zeroed in place.
    if (i == 0) trace.take(2 * kMiB, 0, TrainingTrace::kEngine);
    trace.give_back(trace.take(kMiB, 0, TrainingTrace::kEngine), kMiB, 0, TrainingTrace::kEngine);
    trace.give_back(activation, 8 * kMiB, 0, TrainingTrace::kEngine);
    if (i == 0) trace.take(2 * kMiB, trace.optimize);  // the momentum
  }
  // The analyzer recognizes an optimizer that works in place only at the fifth pass.
  CHECK(report_of(trace.builder()).at("steps").size() == 30 - 4);
}

// Thirty rounds of the same allocations; a single round makes one allocation more.
Json steps_of_loop(std::uint64_t period_ns) {
  TraceBuilder trace;
  for (std::uint64_t step = 0; step < 30; ++step) {
    trace.wait_until(TraceBuilder::kFirstTick + step * period_ns);
    for (int layer = 0; layer < 5; ++layer) allocate_and_free(trace, kMiB);
    allocate_and_free(trace, 7 * kMiB);
    if (step == 20) trace.allocate(0x300000000, 512);  // allocated in one round only
  }
  return report_of(trace).at("steps");
}

TEST_CASE("what Python code in a backward pass lets go of ends no step", "[unit]") {
  TrainingTrace trace;
  const std::uint32_t function =
      trace.stack({{"Scale.backward", "scale.py", 1},
                   {"BackwardCFunction.apply", "/lib/torch/autograd/function.py", 2}});
  for (int step = 0; step < 4; ++step) {
    const std::uint64_t activation = trace.take(8 * kMiB, trace.forward);
    for (int layer = 0; layer < 3; ++layer) {
      const std::uint64_t temporary = trace.take(kMiB, function, TrainingTrace::kEngine);
      trace.give_back(temporary, kMiB, 0, TrainingTrace::kEngine);
    }
    trace.give_back(activation, 8 * kMiB, 0, TrainingTrace::kEngine);
    const std::uint64_t temporary = trace.take(4 * kMiB, trace.optimize);
    trace.give_back(temporary, 4 * kMiB, 0);
    trace.take(512, trace.report_loss);
  }
  const Json steps = report_of(trace.builder()).at("steps");
  REQUIRE(steps.size() == 4);
  CHECK(steps[0].at("allocations") == 5);
}

TEST_CASE("what goes when backward returns is no gradient of a parameter, and ends no step",
          "[unit]") {
  TrainingTrace trace;
  const std::uint32_t first = trace.stack({{"_make_grads", "/lib/torch/autograd/__init__.py", 1},
                                           {"backward", "/lib/torch/autograd/__init__.py", 2},
                                           {"main", "train.py", 5}});
  trace.upload(trace.take(2 * kMiB, trace.move), 2 * kMiB, trace.move);
  for (int step = 0; step < 4; ++step) {
    const std::uint64_t activation = trace.take(8 * kMiB, trace.forward);
    const std::uint64_t of_loss = trace.take(512, first);
    const std::uint64_t of_input = trace.take(5 * kMiB, 0, TrainingTrace::kEngine);
    const std::uint64_t gradient = trace.take(2 * kMiB, 0, TrainingTrace::kEngine);
    trace.give_back(activation, 8 * kMiB, 0, TrainingTrace::kEngine);
    trace.give_back(of_loss, 512, 0);
    trace.give_back(of_input, 5 * kMiB, 0);
    trace.take(512, trace.loss);  // between the backward pass and the optimizer
    trace.give_back(trace.take(4 * kMiB, trace.optimize), 4 * kMiB, trace.optimize);
    trace.give_back(gradient, 2 * kMiB, trace.zero_grad);
  }
  const Json steps = report_of(trace.builder()).at("steps");
  REQUIRE(steps.size() == 4);
  CHECK(steps[1].at("allocations") == 6);
}

TEST_CASE("the period of the allocations tells steps where nothing else does", "[unit]") {
  const Json steps = steps_of_loop(1'000'000);
  REQUIRE(steps.size() > 15);
  CHECK(steps[3].at("inferred") == true);
  CHECK(steps[3].at("source") == "period");
  CHECK(steps[0].at("allocations") == 6);
  CHECK(steps[0].at("peak_bytes") == 7 * kMiB);
}

TEST_CASE("a period that soon ends is the loading of layers and no step", "[unit]") {
  const auto steps_after = [](int others) {
    TraceBuilder trace;
    std::uint64_t at = TraceBuilder::kFirstTick;
    const auto allocate = [&](std::uint64_t bytes) {
      trace.wait_until(at += 1'000'000);
      allocate_and_free(trace, bytes);
    };
    for (int layer = 0; layer < 12; ++layer) {
      allocate(64 * kMiB);
      allocate(16 * 1024);
    }
    for (int i = 0; i < others; ++i) allocate(kMiB + 512 * static_cast<std::uint64_t>(i));
    return report_of(trace).at("steps").size();
  };
  CHECK(steps_after(100) == 0);
  CHECK(steps_after(10) != 0);
}

TEST_CASE("a loop of a few microseconds is no step", "[unit]") {
  CHECK(steps_of_loop(90'000).empty());
  CHECK_FALSE(steps_of_loop(110'000).empty());
}

TEST_CASE("allocations without a period have no steps", "[unit]") {
  const auto steps_of_sizes = [](auto&& mib_of) {
    TraceBuilder trace;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      trace.wait_until(TraceBuilder::kFirstTick + i * 100'000);
      allocate_and_free(trace, mib_of(i) * kMiB);
    }
    return report_of(trace).at("steps");
  };
  std::uint64_t state = 1;
  CHECK(steps_of_sizes([&](std::uint64_t) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          return (state >> 60) + 1;
        }).empty());
  CHECK_FALSE(steps_of_sizes([](std::uint64_t i) { return i % 16 + 1; }).empty());
}

TEST_CASE("of very many steps the first, the last and the highest are reported", "[unit]") {
  TraceBuilder trace;
  trace::Annotation step;
  step.operation = AnnotationOperation::kStep;
  for (step.value = 0; step.value < 3000; ++step.value) {
    trace.add(step);
    allocate_and_free(trace, step.value == 1500 ? 50 * kMiB : kMiB);
  }
  const Json report = report_of(trace);
  const Json& steps = report.at("steps");
  CHECK(steps.size() == 1050);
  CHECK(steps[0].at("index") == 0);
  CHECK(steps.back().at("index") == 2999);
  CHECK(steps.back().at("peak_bytes") == kMiB);
  CHECK(row_where(steps, {{"index", 1500}}).at("peak_bytes") == 50 * kMiB);
  CHECK(loss_of(report, "steps_left_out") == 1950);
  CHECK(row_where(report.at("peak"), {{"level", "driver"}}).at("step") == 1500);
}

}  // namespace gpumemtrace::analyzer_steps_test
