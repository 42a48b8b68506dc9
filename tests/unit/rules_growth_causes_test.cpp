// SPDX-License-Identifier: Apache-2.0
// Lines whose memory grows together: a graph of autograd, results that are kept, a cache that
// fills.
#include "tests/support/finding_query.hpp"
#include "tests/support/stack_records.hpp"

namespace gpumemtrace::rules_growth_causes_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x900000000;
constexpr std::int64_t kSmall = 16 * 1024;

// Stacks of lines 7 to 9 of a script; lines 8 and 9 call modules of PyTorch's own.
constexpr std::uint32_t kInput = 1;
constexpr std::uint32_t kCell = 2;
constexpr std::uint32_t kHead = 3;
// Stacks inside the module that line 8 calls: those of two layers, and that of the program's own
// hook.
constexpr std::uint32_t kLinear = 4;
constexpr std::uint32_t kActivation = 5;
constexpr std::uint32_t kHook = 6;

class Loop {
 public:
  Loop() : trace_(program_trace()) {
    constexpr auto kScript = "/job/train.py";
    add_code(trace_, 1, "Module._call_impl", "/lib/site-packages/torch/nn/modules/module.py", 9);
    for (std::uint32_t line = 7; line <= 9; ++line)
      add_code(trace_, line, "<module>", kScript, line);
    add_stack(trace_, kInput, {{7}, {}});
    add_stack(trace_, kCell, {{1, 8}, {}});
    add_stack(trace_, kHead, {{1, 9}, {}});
    add_code(trace_, 2, "Linear.forward", "/lib/site-packages/torch/nn/modules/linear.py", 134);
    add_code(trace_, 3, "ReLU.forward", "/lib/site-packages/torch/nn/modules/activation.py", 143);
    add_code(trace_, 4, "store", kScript, 4);
    add_stack(trace_, kLinear, {{2, 1, 8}, {}});
    add_stack(trace_, kActivation, {{3, 1, 8}, {}});
    add_stack(trace_, kHook, {{4, 1, 8}, {}});
    trace_.allocate(kAddress, 1024 * 1024 * kMiB);
  }
  void step(std::uint64_t number) { trace_.step(number); }
  void keep(std::uint32_t stack, int blocks) {
    for (int i = 0; i < blocks; ++i) take(stack);
  }
  void pass(std::uint32_t stack, int blocks) {
    for (int i = 0; i < blocks; ++i) block_at(trace_, take(stack), -kSmall, 0);
  }
  Json findings() { return findings_of(trace_, "growth"); }

 private:
  std::uint64_t take(std::uint32_t stack) {
    next_ += kMiB;
    block_at(trace_, next_, kSmall, stack);
    return next_;
  }

  TraceBuilder trace_;
  std::uint64_t next_ = kAddress;
};

// Findings of a training that never detaches its hidden state (`has_graph`), or of a validation
// that keeps outputs and targets, which have no graph. In the last `tail` steps only the head is
// called.
Json growth_of(bool has_graph, int tail) {
  Loop loop;
  for (int step = 0; step < 400; ++step) {
    loop.step(static_cast<std::uint64_t>(step));
    if (step < 400 - tail) {
      loop.keep(kInput, 1);
      if (has_graph) loop.keep(kCell, 4);
      if (!has_graph) loop.pass(kCell, 8);
    }
    loop.pass(kHead, has_graph ? 3 : 8);
    loop.keep(kHead, 1);
  }
  return loop.findings();
}

}  // namespace

TEST_CASE("a graph that several lines of one function build is one finding", "[unit]") {
  for (const int tail : {0, 30}) {
    const Json found = growth_of(true, tail);
    REQUIRE(found.size() == 1);
    CHECK(found[0].at("severity") == "warning");
    CHECK(found[0].at("site").at("line") == 8);  // the line with most of the bytes
    CHECK(found[0].at("evidence").at("places") == 3);
    CHECK(has(found[0], "A graph of autograd from train.py:8 (top level) is kept"));
  }
}

TEST_CASE("outputs and targets that are kept without a graph are not called one", "[unit]") {
  const Json found = growth_of(false, 0);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("evidence").at("places") == 2);
  CHECK_FALSE(has(found[0], "autograd"));
  CHECK(has(found[0], "and 1 other place grew by"));
  CHECK(has(found[0], "Find the lists, dicts or attributes that keep these tensors"));
}

TEST_CASE("of what a call keeps its last block alone is a result", "[unit]") {
  const auto grow = [](bool keeps_input, bool keeps_activation) {
    Loop loop;
    for (int step = 0; step < 400; ++step) {
      loop.step(static_cast<std::uint64_t>(step));
      if (keeps_input) loop.keep(kInput, 1);
      if (!keeps_input) loop.pass(kInput, 1);
      loop.pass(kLinear, 2);
      if (keeps_activation) loop.keep(kActivation, 1);
      if (!keeps_activation) loop.pass(kActivation, 1);
      if (keeps_activation) loop.pass(kLinear, 1);
      if (!keeps_activation) loop.keep(kLinear, 1);
      loop.pass(kHead, 4);
    }
    const Json found = loop.findings();
    REQUIRE(found.size() == 1);
    return found[0];
  };
  CHECK(has(grow(true, true), "A graph of autograd from train.py:"));
  CHECK_FALSE(has(grow(true, false), "graph"));
  // If one line alone grows, the cause may also be a hook that keeps what it saw.
  CHECK(has(grow(false, true), "as when a graph of autograd is kept"));
  CHECK(has(grow(false, false), "No graph of autograd is kept"));
}

TEST_CASE("what a hook of the program's own keeps is no graph", "[unit]") {
  Loop loop;
  for (int step = 0; step < 400; ++step) {
    loop.step(static_cast<std::uint64_t>(step));
    loop.pass(kLinear, 4);
    loop.keep(kHook, 8);
    loop.pass(kLinear, 4);
  }
  const Json found = loop.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("site").at("function") == "store");
  CHECK_FALSE(has(found[0], "as when a graph of autograd is kept"));
}

TEST_CASE("a cache that fills for as long as the run lasts is for information", "[unit]") {
  const auto fill = [](bool has_steps, int others) {
    Loop loop;
    loop.keep(kHead, others);
    for (int step = 0; step < 100; ++step) {
      if (has_steps) loop.step(static_cast<std::uint64_t>(step));
      loop.keep(kInput, 3);
      if (step % 4 == 0) loop.pass(kCell, 1);
    }
    return loop.findings();
  };
  const Json found = fill(true, 0);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "info");
  CHECK(found[0].at("site").at("line") == 7);
  CHECK(has(found[0], "none of it was freed in that time"));
  CHECK(has(found[0], "If it fills on purpose and ends by itself, nothing is to be done"));

  CHECK(fill(false, 0).empty());    // a program that builds up its data has no steps
  CHECK(fill(true, 2000).empty());  // the growth is little beside all other memory
}

}  // namespace gpumemtrace::rules_growth_causes_test
