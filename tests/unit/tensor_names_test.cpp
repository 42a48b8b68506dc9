// SPDX-License-Identifier: Apache-2.0
// A program's names for its tensors: they make categories exact, fill tensors[] and name layers.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::tensor_names_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;
using trace::TensorRole;

namespace {

constexpr std::uint64_t kWeight = 2 * kMiB;

Json framework_peak(const Json& report) {
  return row_where(report.at("peak"), {{"level", "framework"}});
}

std::uint64_t sum_of(const Json& rows) {
  std::uint64_t sum = 0;
  for (const Json& row : rows) sum += row.at("bytes").get<std::uint64_t>();
  return sum;
}

// A weight with its gradient, its optimizer state and a mask, whose stacks suggest other
// categories.
struct NamedModel {
  std::uint64_t weight = 0;
  std::uint64_t gradient = 0;

  explicit NamedModel(TrainingTrace& trace) {
    weight = trace.take(kWeight, trace.load);
    gradient = trace.take(kWeight, trace.forward);
    const std::uint64_t state = trace.take(2 * kWeight, trace.load);
    const std::uint64_t mask = trace.take(kMiB, trace.optimize);
    trace.name(weight, kWeight - 4, TensorRole::kParameter, "h.0.mlp.weight", "", "Net > Mlp");
    trace.name(gradient, kWeight - 4, TensorRole::kGradient, "h.0.mlp.weight", "", "Net > Mlp");
    trace.name(state, 2 * kWeight, TensorRole::kOptimizerState, "h.0.mlp.weight", "exp_avg",
               "Net > Mlp");
    trace.name(mask, kMiB, TensorRole::kBuffer, "mask", "", "Net");
  }
};

}  // namespace

TEST_CASE("what a program says of its tensors decides their categories, exactly", "[unit]") {
  TrainingTrace trace;
  const NamedModel model(trace);
  trace.take(3 * kMiB, trace.load);
  const Json report = report_of(trace.builder());
  const Json peak = framework_peak(report);
  for (const char* const key : {"categories", "categories_exact"}) {
    CHECK(peak.at(key).at("parameter") == kWeight);
    CHECK(peak.at(key).at("gradient") == kWeight);
    CHECK(peak.at(key).at("optimizer_state") == 2 * kWeight);
    CHECK(peak.at(key).at("buffer") == kMiB);
  }
  CHECK(peak.at("categories").at("unknown") == 3 * kMiB);
  CHECK(row_where(peak.at("holders"), {{"category", "buffer"}}).at("category_confidence") ==
        "exact");

  CHECK(sum_of(report.at("tensors")) == peak.at("bytes"));
  const Json weight = row_where(report.at("tensors"), {{"role", "parameter"}});
  CHECK(weight.at("name") == "h.0.mlp.weight");
  CHECK(weight.at("layer") == "h.0.mlp");
  CHECK(weight.at("path") == "Net > Mlp");
  CHECK(weight.at("bytes") == kWeight);
  CHECK(weight.at("requested_bytes") == kWeight - 4);
  const Json state = row_where(report.at("tensors"), {{"role", "optimizer_state"}});
  CHECK(state.at("state") == "exp_avg");
  CHECK(row_where(report.at("tensors"), {{"role", nullptr}}).at("bytes") == 3 * kMiB);
  CHECK(report.at("tensors").back().at("role").is_null());

  CHECK(sum_of(report.at("modules")) == peak.at("bytes"));
  const Json layer = row_where(report.at("modules"), {{"path", "Net > Mlp"}});
  CHECK(layer.at("bytes") == 4 * kWeight);
  CHECK(layer.at("name") == "h.0.mlp");
}

TEST_CASE("layers of one class are told apart by their names", "[unit]") {
  TrainingTrace trace;
  for (const char* const name : {"h.0.mlp.weight", "h.1.mlp.weight", "h.1.mlp.bias"}) {
    trace.name(trace.take(kWeight, trace.load), kWeight, TensorRole::kParameter, name, "",
               "Net > Mlp");
  }
  trace.name(trace.take(kMiB, trace.load), kMiB, TensorRole::kParameter, "scale", "", "Net");
  const Json modules = report_of(trace.builder()).at("modules");
  CHECK(row_where(modules, {{"name", "h.0.mlp"}}).at("bytes") == kWeight);
  const Json second = row_where(modules, {{"name", "h.1.mlp"}});
  CHECK(second.at("path") == "Net > Mlp");
  CHECK(second.at("count") == 2);
  CHECK(row_where(modules, {{"path", "Net"}}).at("name").is_null());  // the row of the model itself
}

TEST_CASE("a report without names has none of their keys filled", "[unit]") {
  TrainingTrace trace;
  trace.take(kMiB, trace.move);
  const Json report = report_of(trace.builder());
  CHECK(report.at("tensors").empty());
  CHECK(!framework_peak(report).contains("categories_exact"));
}

TEST_CASE("a name ends with its block", "[unit]") {
  TrainingTrace trace;
  const NamedModel model(trace);
  trace.give_back(model.weight, kWeight, trace.load);
  trace.builder().block(0x700000000000, 64 * static_cast<std::int64_t>(kMiB), 0);
  const Json report = report_of(trace.builder());
  CHECK(framework_peak(report).at("categories_exact").at("parameter") == 0);
  CHECK(row_where(report.at("tensors"), {{"role", "parameter"}}).is_null());
}

TEST_CASE("a tensor that was freed before the end keeps its name at the peak", "[unit]") {
  TrainingTrace trace;
  const NamedModel model(trace);
  trace.give_back(model.gradient, kWeight, trace.zero_grad);
  const Json report = report_of(trace.builder());
  CHECK(framework_peak(report).at("categories_exact").at("gradient") == kWeight);
  CHECK(row_where(report.at("tensors"), {{"role", "gradient"}}).at("name") == "h.0.mlp.weight");
}

TEST_CASE("names of an address hold for the block that lives there then", "[unit]") {
  TrainingTrace trace;
  trace.name(0x200000000, kMiB, TensorRole::kParameter, "early");
  const std::uint64_t block = trace.take(kMiB, trace.load);
  REQUIRE(block == 0x200000000);
  const Json report = report_of(trace.builder());
  CHECK(report.at("tensors").empty());
}

TEST_CASE("tied weights and flat memory have all their names", "[unit]") {
  TrainingTrace trace;
  const std::uint64_t flat = trace.take(kMiB, trace.load);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i) {
      trace.name(flat, kMiB, TensorRole::kParameter, "rnn.weight_" + std::to_string(i));
    }
    trace.name(flat, kMiB, TensorRole::kOptimizerState, "rnn.weight_0", "lookahead");
  }
  const Json tensors = report_of(trace.builder()).at("tensors");
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].at("name") == "rnn.weight_0");
  CHECK(tensors[0].at("role") == "parameter");
  CHECK(tensors[0].at("names") == 41);
  CHECK(tensors[0].at("other_names")[0] == "rnn.weight_1");
  CHECK(tensors[0].at("other_names").size() == 15);
  CHECK(tensors[0].at("bytes") == kMiB);
}

TEST_CASE("more tensors than are told one by one come as a rest of each role", "[unit]") {
  TrainingTrace trace;
  for (int i = 0; i < 130; ++i) {
    const bool is_parameter = i < 120;
    const std::uint64_t bytes = is_parameter ? kMiB : 512;
    trace.name(trace.take(bytes, trace.load), bytes,
               is_parameter ? TensorRole::kParameter : TensorRole::kBuffer,
               "layer." + std::to_string(i));
  }
  const Json tensors = report_of(trace.builder()).at("tensors");
  CHECK(tensors.size() == 102);
  CHECK(sum_of(tensors) == 120 * kMiB + 10 * 512);
  const Json rest = row_where(tensors, {{"role", "parameter"}, {"name", nullptr}});
  CHECK(rest.at("count") == 20);
  CHECK(rest.at("bytes") == 20 * kMiB);
  CHECK(row_where(tensors, {{"role", "buffer"}, {"name", nullptr}}).at("count") == 10);
}

TEST_CASE("gradients of later steps are known by those that were named, not exactly", "[unit]") {
  TrainingTrace trace;
  trace.upload(trace.take(kWeight, trace.move), kWeight, trace.move);
  constexpr std::uint64_t kOdd = 3 * kMiB;  // no parameter has this size
  for (int step = 0; step < 4; ++step) {
    const std::uint64_t activation = trace.take(kMiB, trace.forward);
    const std::uint64_t gradient = trace.take(kOdd, 0, TrainingTrace::kEngine);
    trace.give_back(activation, kMiB, 0, TrainingTrace::kEngine);
    if (step == 0) trace.name(gradient, kOdd, TensorRole::kGradient, "weight");
    const std::uint64_t update = trace.take(512, trace.optimize);
    if (step == 3) trace.take(64 * kMiB, trace.optimize);
    trace.give_back(update, 512, trace.optimize);
    trace.give_back(gradient, kOdd, trace.report_loss);
  }
  const Json peak = framework_peak(report_of(trace.builder()));
  CHECK(peak.at("categories").at("gradient") == kOdd);
  CHECK(peak.at("categories_exact").at("gradient") == 0);
  CHECK(row_where(peak.at("holders"), {{"category", "gradient"}}).at("category_confidence") ==
        "inferred");
}

}  // namespace gpumemtrace::tensor_names_test
