// SPDX-License-Identifier: Apache-2.0
// Owners, sites and stacks of the report, from stacks with native and Python frames.
#include "analyzer/model/program/backward_stacks.hpp"
#include "tests/catch.hpp"
#include "tests/support/compiled_library.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/stack_records.hpp"

namespace gpumemtrace::stack_names_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::int64_t kSigned = static_cast<std::int64_t>(kMiB);
constexpr std::uint64_t kModelBase = 0x7f0000000000;
constexpr std::uint64_t kTorchBase = 0x7e0000000000;

const CompiledLibrary& model_library() {
  static const CompiledLibrary library("libmodel.so", R"(
int sink;
namespace model {
inline __attribute__((always_inline)) void reserve(int n) { sink += n; }
__attribute__((noinline)) void grow(int n) {
  reserve(n * 3);
}
}
extern "C" void train_step(int n) { model::grow(n); sink += 1; }
extern "C" void cudaMalloc(int n) { sink += n; }
)",
                                       "-g -O2");
  return library;
}

const CompiledLibrary& torch_library() {
  static const CompiledLibrary library("libtorch_cuda.so", R"(
int sink;
namespace torch { namespace autograd { namespace generated {
struct AddmmBackward0 { __attribute__((noinline)) void apply(int n); };
void AddmmBackward0::apply(int n) { sink += n; }
} } }
extern "C" void ncclCommInitAll(int n) { sink += n; }
extern "C" void empty_strided(int n) { sink += 2 * n; }
)",
                                       "-O2");
  return library;
}

constexpr const char* kGrow = "_ZN5model4growEi";
constexpr const char* kNode = "_ZN5torch8autograd9generated14AddmmBackward05applyEi";

// A return address in the function of libmodel.so: one byte after its first.
std::uint64_t in_model(const char* symbol) {
  return kModelBase + model_library().begin_of(symbol) + 1;
}
std::uint64_t in_torch(const char* symbol) {
  return kTorchBase + torch_library().begin_of(symbol) + 1;
}

void add_modules(TraceBuilder& trace) {
  add_module(trace, model_library().path.string(), model_library().build_id, {kModelBase});
  add_module(trace, torch_library().path.string(), torch_library().build_id, {kTorchBase});
  add_module(trace, "/usr/lib/x86_64-linux-gnu/libc.so.6", "", {0x7d0000000000});
}

Json first_holder(const Json& report, const char* level) {
  return row_where(report.at("peak"), {{"level", level}}).at("holders")[0];
}

// The row's stack with its frames in place of their indexes.
Json stack_of(const Json& report, const Json& row) {
  Json stack = row_where(report.at("stacks"), {{"id", row.at("stack")}});
  for (Json& frame : stack.at("frames")) frame = report.at("frames")[frame.get<std::size_t>()];
  return stack;
}

}  // namespace

TEST_CASE("a native stack gives owner, site and frames with inlined functions", "[unit]") {
  TraceBuilder trace;
  add_modules(trace);
  add_thread(trace, 1, 4711, "worker");
  add_stack(
      trace, 7,
      {{},
       {in_model("cudaMalloc"), in_model(kGrow), in_model("train_step"), 0x7d0000000100, 0x1234}});
  allocate_at(trace, 0x10000000, kMiB, 7);
  const Json report = report_of(trace);
  const Json holder = first_holder(report, "driver");
  CHECK(holder.at("owner") == "program");
  // The site is the innermost frame of the user's code, not the static runtime's cudaMalloc.
  CHECK(holder.at("site").at("function") == "model::reserve(int)");
  CHECK(holder.at("site").at("line") == 4);
  CHECK(holder.at("site").at("module") == "libmodel.so");
  CHECK(holder.at("site").at("kind") == "native");
  const Json stack = stack_of(report, holder);
  CHECK(stack.at("thread") == "worker");
  CHECK(stack.at("inferred_from").is_null());
  const Json frames = stack.at("frames");
  REQUIRE(frames.size() == 6);
  CHECK(frames[1].at("function") == "model::reserve(int)");
  CHECK(frames[2].at("function") == "model::grow(int)");
  CHECK(frames[2].at("line") == 6);
  CHECK(frames[1].at("offset") == frames[2].at("offset"));
  CHECK(frames[3].at("function") == "train_step");
  CHECK(frames[4].at("function").is_null());
  CHECK(frames[4].at("module") == "libc.so.6");
  CHECK(frames[4].at("offset") == 0xff);
  CHECK(frames[5].at("module").is_null());
}

TEST_CASE("a library that is linked into another is the owner", "[unit]") {
  TraceBuilder trace;
  add_modules(trace);
  add_stack(trace, 7, {{}, {in_torch("ncclCommInitAll"), in_torch("empty_strided")}});
  allocate_at(trace, 0x10000000, kMiB, 7);
  const Json report = report_of(trace);
  const Json holder = first_holder(report, "driver");
  CHECK(holder.at("owner") == "nccl");
  CHECK(holder.at("site").is_null());
  CHECK_FALSE(holder.at("stack").is_null());
}

TEST_CASE("a Python line of the user is the site whatever native code it called", "[unit]") {
  TraceBuilder trace;
  add_modules(trace);
  add_code(trace, 1, "Linear.forward", "/x/site-packages/torch/nn/modules/linear.py", 125);
  add_code(trace, 2, "train", "/home/me/train.py", 12);
  add_stack(trace, 7, {{1, 2}, {in_model(kGrow)}});
  allocate_at(trace, 0x10000000, kMiB, 7);
  const Json report = report_of(trace);
  const Json holder = first_holder(report, "driver");
  CHECK(holder.at("owner") == "program");  // libmodel.so made the call
  CHECK(holder.at("site").at("function") == "train");
  CHECK(holder.at("site").at("line") == 12);
  CHECK(holder.at("site").at("kind") == "python");
  CHECK(stack_of(report, holder).at("frames").size() == 4);
}

TEST_CASE("through an interpreter the Python frames say who asked", "[unit]") {
  TraceBuilder trace;
  add_module(trace, "/usr/bin/python3.12", "", {0x600000});
  add_module(trace, "/usr/lib/libffi.so.8", "", {0x800000});
  add_code(trace, 1, "malloc", "/x/site-packages/cupy/cuda/memory.py", 3);
  add_code(trace, 2, "malloc", "/home/me/driver.py", 4);
  add_stack(trace, 7, {{1, 2}, {0x800010, 0x600010}});
  add_stack(trace, 8, {{2}, {0x800010, 0x600010}});
  allocate_at(trace, 0x10000000, 2 * kMiB, 7);
  allocate_at(trace, 0x20000000, kMiB, 8);
  const Json holders = row_where(report_of(trace).at("peak"), {{"level", "driver"}}).at("holders");
  CHECK(holders[0].at("owner") == "cupy");
  CHECK(holders[1].at("owner") == "program");
}

TEST_CASE("rows of one line of the user are one, with the stack of the largest part", "[unit]") {
  TraceBuilder trace;
  add_modules(trace);
  add_code(trace, 1, "Linear.forward", "/x/site-packages/torch/nn/modules/linear.py", 125);
  add_code(trace, 2, "Norm.forward", "/x/site-packages/torch/nn/modules/norm.py", 25);
  add_code(trace, 3, "train", "/home/me/train.py", 12);
  add_stack(trace, 7, {{1, 3}, {}});
  add_stack(trace, 8, {{2, 3}, {}});
  block_at(trace, 0x10000000, kSigned, 7);
  block_at(trace, 0x20000000, 3 * kSigned, 8);
  const Json report = report_of(trace);
  const Json holder = first_holder(report, "framework");
  CHECK(holder.at("bytes") == 4 * kMiB);
  CHECK(holder.at("stack") == "p1:8");
}

TEST_CASE("growth of a line that many call has the stack of what grew", "[unit]") {
  TraceBuilder trace;
  add_code(trace, 1, "allocate", "/home/me/memory.py", 5);
  add_code(trace, 2, "forward", "/home/me/train.py", 12);
  add_code(trace, 3, "log", "/home/me/train.py", 40);
  add_stack(trace, 7, {{1, 2}, {}});
  add_stack(trace, 8, {{1, 3}, {}});
  for (std::uint64_t round = 0; round < 500; ++round) {
    block_at(trace, 0x10000000, 64 * kSigned, 7);
    block_at(trace, 0x10000000, -64 * kSigned, 7);
    if (round % 10 == 9) block_at(trace, 0x20000000 + round * kMiB, kSigned, 8);
  }
  const Json growth = report_of(trace).at("leaks").at("growth");
  REQUIRE(growth.size() == 1);
  CHECK(growth[0].at("stack") == "p1:8");
}

TEST_CASE("an address is named by the file that lay there when the stack was met", "[unit]") {
  TraceBuilder trace;
  const std::string path = model_library().path.string();
  add_module(trace, path, model_library().build_id, {kModelBase});
  add_stack(trace, 7, {{}, {in_model(kGrow)}});
  allocate_at(trace, 0x10000000, kMiB, 7);
  ModulePlace gone{kModelBase};
  gone.unloaded = true;
  add_module(trace, "", "", gone);
  add_module(trace, "/home/me/libother.so", "", {kModelBase});
  CHECK(first_holder(report_of(trace), "driver").at("site").at("module") == "libmodel.so");
}

TEST_CASE("a file of another build is not believed, and the report says so", "[unit]") {
  TraceBuilder trace;
  add_module(trace, model_library().path.string(), "another build", {kModelBase});
  add_stack(trace, 7, {{}, {in_model(kGrow)}});
  allocate_at(trace, 0x10000000, kMiB, 7);
  const Json report = report_of(trace);
  const Json site = first_holder(report, "driver").at("site");
  CHECK(site.at("function").is_null());
  CHECK(site.at("module") == "libmodel.so");
  CHECK(site.at("offset") == model_library().begin_of(kGrow));
  CHECK(loss_of(report, "symbols_of_another_build") == 1);
}

// A training step: thread 1 computes a loss, then waits in backward() while writer 2 works.
namespace {

constexpr std::uint64_t kPythonThread = 100;

void add_training_stacks(TraceBuilder& trace) {
  add_modules(trace);
  add_thread(trace, 1, kPythonThread, "python3");
  add_thread(trace, 2, 200, "pt_autograd_0");
  add_code(trace, 1, "backward", "/x/site-packages/torch/autograd/__init__.py", 354);
  add_code(trace, 2, "train", "/home/me/train.py", 30);
  add_code(trace, 3, "loss", "/home/me/train.py", 20);
  add_code(trace, 4, "other", "/home/me/train.py", 40);
  add_stack(trace, 1, {{3}, {}});     // computes the loss
  add_stack(trace, 2, {{1, 2}, {}});  // calls backward() at line 30
  add_stack(trace, 3, {{}, {in_torch("empty_strided"), in_torch(kNode)}}, 2);
  add_stack(trace, 4, {{1, 4}, {}});  // calls backward() at line 40
}

Json holder_of_bytes(const Json& report, std::uint64_t bytes) {
  return row_where(row_where(report.at("peak"), {{"level", "framework"}}).at("holders"),
                   {{"bytes", bytes}});
}

}  // namespace

TEST_CASE("a backward block carries its node and the line that waits for it", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  block_at(trace, 0x20000000, 2 * kSigned, 3, 2);  // before thread 1 was seen waiting
  add_waiting(trace, kPythonThread, 0);            // no stack: an earlier wait is over
  add_waiting(trace, kPythonThread, 2);
  block_at(trace, 0x30000000, 3 * kSigned, 3, 2);  // after thread 1 was seen waiting
  const Json report = report_of(trace);
  const Json holder = holder_of_bytes(report, 5 * kMiB);
  REQUIRE_FALSE(holder.is_null());
  CHECK(holder.at("owner") == "pytorch");
  CHECK(holder.at("site").at("function") == "train");
  CHECK(holder.at("site").at("line") == 30);
  CHECK(holder.at("site").at("node") == "AddmmBackward0");
  const Json stack = stack_of(report, holder);
  CHECK(stack.at("thread") == "pt_autograd_0");
  CHECK(stack.at("inferred_from") == "python3");
  REQUIRE(stack.at("frames").size() == 4);
  CHECK(stack.at("frames")[1].at("function") ==
        "torch::autograd::generated::AddmmBackward0::apply(int)");
  CHECK(stack.at("frames")[3].at("kind") == "python");
}

TEST_CASE("a thread keeps its name when it begins another chunk", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  add_thread(trace, 1, kPythonThread, "");
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  const Json report = report_of(trace);
  CHECK(stack_of(report, holder_of_bytes(report, 100 * kMiB)).at("thread") == "python3");
}

namespace {

class NothingAhead final : public analyzer::LookAhead {
 public:
  bool take_free(std::uint64_t) override { return false; }
  std::uint64_t next_ticks_of(std::uint32_t) override { return ~std::uint64_t{0}; }
};

}  // namespace

TEST_CASE("a thread whose waits are all over has none when a second checkpoint ends", "[unit]") {
  NothingAhead ahead;
  const analyzer::PythonStacks python;
  analyzer::BackwardStacks stacks({}, ahead, python);
  Stack stack;
  stack.id = StackId{1};
  stack.python_frames = 1;
  stacks.add_stack(stack);
  stacks.add_thread(1, kPythonThread);
  stacks.begin_at(1000);
  WaitingStack wait;
  wait.record.time = 10;
  wait.thread_id = kPythonThread;
  wait.stack = stack.id;
  stacks.add_wait(wait);
  stacks.begin_at(2000);
  CHECK_FALSE(stacks.is_python_thread(1));
}

TEST_CASE("who waited counts only between two events of its own", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  block_at(trace, 0x20000000, 1 * kSigned, 3, 2);  // no thread was seen waiting
  block_at(trace, 0x21000000, 100 * kSigned, 1);
  block_at(trace, 0x30000000, 2 * kSigned, 3, 2);
  add_waiting(trace, kPythonThread, 2);
  block_at(trace, 0x31000000, 100 * kSigned, 1);
  block_at(trace, 0x40000000, 4 * kSigned, 3, 2);
  block_at(trace, 0x40000001, 8 * kSigned, 3, 2);
  add_waiting(trace, kPythonThread, 4);
  const Json report = report_of(trace);
  const Json nobody = holder_of_bytes(report, 1 * kMiB);
  CHECK(nobody.at("site").at("function") == "AddmmBackward0");
  CHECK(nobody.at("site").at("line").is_null());
  CHECK(stack_of(report, nobody).at("inferred_from").is_null());
  CHECK(holder_of_bytes(report, 2 * kMiB).at("site").at("line") == 30);
  CHECK(holder_of_bytes(report, 12 * kMiB).at("site").at("line") == 40);
}

TEST_CASE("without a look at the thread its last own stack in backward() counts", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  block_at(trace, 0x10000000, 100 * kSigned, 2);  // ones_like, called by backward()
  block_at(trace, 0x20000000, 1 * kSigned, 3, 2);
  const Json report = report_of(trace);
  const Json holder = holder_of_bytes(report, 1 * kMiB);
  CHECK(holder.at("site").at("line") == 30);
  CHECK(stack_of(report, holder).at("inferred_from") == "python3");
}

TEST_CASE("of two threads the one that was seen waiting is meant", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  add_thread(trace, 3, 300, "loader");
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  block_at(trace, 0x20000000, 1 * kSigned, 3, 2);
  add_waiting(trace, kPythonThread, 2);
  block_at(trace, 0x30000000, 100 * kSigned, 1, 3);  // the loader thread goes on meanwhile
  block_at(trace, 0x40000000, 2 * kSigned, 3, 2);
  const Json report = report_of(trace);
  CHECK(holder_of_bytes(report, 3 * kMiB).at("site").at("line") == 30);
}

TEST_CASE("a thread of the engine says who waits for it, however much it has recorded", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  Call call;
  call.writer = 2;
  for (int i = 0; i < 60'000; ++i) trace.free(0x1000, MemoryKind::kDevice, call);
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  add_waiting(trace, kPythonThread, 2, 0, 2);
  block_at(trace, 0x20000000, 1 * kSigned, 3, 2);
  block_at(trace, 0x30000000, 100 * kSigned, 1);
  add_waiting(trace, kPythonThread, 4, 0, 2);
  block_at(trace, 0x40000000, 2 * kSigned, 3, 2);
  const Json report = report_of(trace);
  CHECK(holder_of_bytes(report, 1 * kMiB).at("site").at("line") == 30);
  CHECK(holder_of_bytes(report, 2 * kMiB).at("site").at("line") == 40);
}

TEST_CASE("Python code on a thread of the engine goes on with who waits for it", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  add_code(trace, 5, "BackwardCFunction.apply", "/x/site-packages/torch/autograd/function.py", 311);
  add_code(trace, 6, "Scale.backward", "/home/me/scale.py", 12);
  add_stack(trace, 5, {{6, 5}, {}}, 2);
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  block_at(trace, 0x20000000, 1 * kSigned, 5, 2);
  block_at(trace, 0x30000000, 2 * kSigned, 3, 2);  // a block without Python code
  block_at(trace, 0x20000000, -1 * kSigned, 0, 2);
  block_at(trace, 0x40000000, 4 * kSigned, 3, 2);
  add_waiting(trace, kPythonThread, 2);
  block_at(trace, 0x50000000, 8 * kSigned, 5, 2);
  const Json report = report_of(trace);
  const Json own = holder_of_bytes(report, 8 * kMiB);
  REQUIRE_FALSE(own.is_null());
  CHECK(own.at("site").at("function") == "Scale.backward");
  CHECK(own.at("site").at("line") == 12);
  const Json stack = stack_of(report, own);
  CHECK(stack.at("inferred_from") == "python3");
  REQUIRE(stack.at("frames").size() == 4);
  CHECK(stack.at("frames")[1].at("function") == "BackwardCFunction.apply");
  CHECK(stack.at("frames")[3].at("function") == "train");
  const Json others = holder_of_bytes(report, 6 * kMiB);
  REQUIRE_FALSE(others.is_null());
  CHECK(others.at("site").at("line") == 30);
  CHECK(others.at("site").at("node") == "AddmmBackward0");
}

TEST_CASE("compiled code belongs to the line of the user that entered it", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  const std::string generated =
      "/scratch/cache/tp/ctpnlunqgle2rhuwo5zjyfellkww6mzn7mtklnwno3ex4nfnbydg.py";
  add_code(trace, 5, "BackwardCFunction.apply", "/x/site-packages/torch/autograd/function.py", 311);
  add_code(trace, 6, "CompiledFunction.backward",
           "/x/site-packages/torch/_functorch/_aot_autograd/runtime_wrappers.py", 2000);
  add_code(trace, 7, "Runner.call", generated, 150);
  add_code(trace, 8, "torch_dynamo_resume_in_forward_at_18", "/home/me/model.py", 18);
  add_stack(trace, 5, {{7, 8, 3}, {}});     // the stack in forward
  add_stack(trace, 6, {{7, 6, 5}, {}}, 2);  // the stack in backward
  block_at(trace, 0x10000000, 2 * kSigned, 5);
  block_at(trace, 0x20000000, 3 * kSigned, 6, 2);
  add_waiting(trace, kPythonThread, 2);
  const Json report = report_of(trace);
  const Json forward = holder_of_bytes(report, 2 * kMiB);
  CHECK(forward.at("owner") == "pytorch");
  CHECK(forward.at("site").at("file") == "/home/me/model.py");
  CHECK(forward.at("site").at("line") == 18);
  const Json backward = holder_of_bytes(report, 3 * kMiB);
  CHECK(backward.at("owner") == "pytorch");
  CHECK(backward.at("site").at("function") == "train");
  CHECK(backward.at("site").at("line") == 30);
  CHECK(stack_of(report, backward).at("inferred_from") == "python3");
}

TEST_CASE("a thread that ran a hook is the engine's when it has a block without Python", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  add_code(trace, 6, "clip", "/home/me/train.py", 50);
  add_stack(trace, 5, {{6}, {}}, 2);
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  block_at(trace, 0x20000000, 1 * kSigned, 5, 2);
  block_at(trace, 0x30000000, 2 * kSigned, 3, 2);
  add_waiting(trace, kPythonThread, 2);
  block_at(trace, 0x40000000, 4 * kSigned, 5, 2);
  const Json report = report_of(trace);
  CHECK(holder_of_bytes(report, 2 * kMiB).at("site").at("line") == 30);
  const Json hook = holder_of_bytes(report, 5 * kMiB);
  CHECK(hook.at("site").at("line") == 50);
  CHECK(holder_of_bytes(report, 100 * kMiB).at("site").at("line") == 20);
}

TEST_CASE("a Python thread's own calls without Python frames stay its own", "[unit]") {
  TraceBuilder trace;
  add_training_stacks(trace);
  add_thread(trace, 3, 300, "loader");
  block_at(trace, 0x10000000, 100 * kSigned, 1);
  block_at(trace, 0x11000000, 100 * kSigned, 1, 3);
  add_waiting(trace, kPythonThread, 2);
  Call call;
  call.writer = 3;
  allocate_at(trace, 0x20000000, kMiB, 3, call);
  const Json report = report_of(trace);
  CHECK(stack_of(report, first_holder(report, "driver")).at("inferred_from").is_null());
}

TEST_CASE("a native thread of a program without Python stays what it is", "[unit]") {
  TraceBuilder trace;
  add_modules(trace);
  add_stack(trace, 3, {{}, {in_torch("empty_strided")}});
  add_waiting(trace, 5, 9);
  block_at(trace, 0x20000000, kSigned, 3, 2);
  const Json report = report_of(trace);
  const Json holder = first_holder(report, "framework");
  CHECK(holder.at("site").is_null());
  CHECK(stack_of(report, holder).at("frames").size() == 1);
}

TEST_CASE("a stack that claims more frames than it has is read as far as it goes", "[unit]") {
  TraceBuilder trace;
  add_modules(trace);
  Stack record;
  record.id = StackId{7};
  record.native_frames = 0xffffffff;
  const std::uint64_t address = in_model(kGrow);
  trace.add(record, 1, {reinterpret_cast<const char*>(&address), sizeof address});
  record.id = StackId{8};
  record.python_frames = 0xffffffff;
  trace.add(record, 1, {reinterpret_cast<const char*>(&address), sizeof address});
  allocate_at(trace, 0x10000000, 2 * kMiB, 7);
  allocate_at(trace, 0x20000000, kMiB, 8);
  const Json report = report_of(trace);
  CHECK(first_holder(report, "driver").at("site").at("function") == "model::reserve(int)");
}

namespace {

constexpr const char* kModuleFile = "/x/site-packages/torch/nn/modules/module.py";

// Adds the code objects: 10 is the call of any module; 11, 13 and 15 are forward() of modules.
void add_model(TraceBuilder& trace) {
  add_code(trace, 10, "Module._call_impl", kModuleFile, 1750);
  add_code(trace, 11, "GPT.forward", "/x/site-packages/transformers/gpt.py", 10);
  add_code(trace, 12, "keeps_outputs.<locals>.wrapper", "/x/site-packages/transformers/io.py", 5);
  add_code(trace, 13, "build.<locals>.Mlp.forward", "/home/me/model.py", 20);
  add_code(trace, 14, "Scale.forward", "/home/me/functions.py", 30);
  add_code(trace, 15, "forward", "/home/me/old_python.py", 40);
  add_code(trace, 16, "Tensor.backward", "/x/site-packages/torch/_tensor.py", 500);
  add_code(trace, 17, "backward", "/x/site-packages/torch/autograd/__init__.py", 200);
  add_code(trace, 20, "train", "/home/me/train.py", 12);
}

std::string layers_of_block(std::initializer_list<std::uint32_t> codes) {
  TraceBuilder trace;
  add_model(trace);
  add_stack(trace, 7, {codes, {}});
  block_at(trace, 0x10000000, kSigned, 7);
  const Json module = first_holder(report_of(trace), "framework").at("module");
  return module.is_null() ? "none" : module.get<std::string>();
}

}  // namespace

TEST_CASE("a holder is told by the layers of the model that it runs in", "[unit]") {
  CHECK(layers_of_block({13, 10, 11, 10, 20}) == "GPT > Mlp");
  // Neither a decorator's frame between the call of a module and its forward() is a layer, nor the
  // forward() of a class that is no module (Scale).
  CHECK(layers_of_block({14, 13, 10, 12, 11, 12, 10, 20}) == "GPT > Mlp");
  CHECK(layers_of_block({14, 20}) == "none");
  CHECK(layers_of_block({20}) == "none");
  // Before CPython 3.11 the class of a function is not known.
  CHECK(layers_of_block({15, 10, 20}) == "old_python.py:40");
  // A backward pass that is called inside a model is not the model's forward.
  CHECK(layers_of_block({17, 16, 11, 10, 20}) == "none");
}

TEST_CASE("layers of one line are rows of their own and sum to the peak", "[unit]") {
  TraceBuilder trace;
  add_model(trace);
  add_stack(trace, 7, {{11, 10, 20}, {}});
  add_stack(trace, 8, {{13, 10, 11, 10, 20}, {}});
  add_stack(trace, 9, {{20}, {}});
  block_at(trace, 0x10000000, kSigned, 7);
  block_at(trace, 0x20000000, 3 * kSigned, 8);
  block_at(trace, 0x30000000, 2 * kSigned, 9);
  const Json report = report_of(trace);
  CHECK(row_where(report.at("modules"), {{"path", "GPT > Mlp"}}).at("bytes") == 3 * kMiB);
  CHECK(row_where(report.at("modules"), {{"path", "GPT"}}).at("bytes") == kMiB);
  CHECK(row_where(report.at("modules"), {{"path", nullptr}}).at("bytes") == 2 * kMiB);
  CHECK(report.at("modules").size() == 3);
}

}  // namespace gpumemtrace::stack_names_test
