// SPDX-License-Identifier: Apache-2.0
// Plays PyTorch's autograd engine: a Python thread calls the engine without the GIL and waits in
// it, while another thread, without Python frames, uses the allocator.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

namespace {

// Has the layout of c10::Device: type 1 is CUDA.
struct Device {
  std::int8_t type = 1;
  std::int8_t index = 0;
};
using ReportBlock = void(void*, std::int64_t, std::size_t, std::size_t, Device);

constexpr std::int64_t kBytes = 512;

// The arguments of run_engine(), as an execution of the engine gets them.
struct Request {
  const char* stop_file;
  void (*run_function)();
};
constexpr char kRoots = 0;
constexpr char kInputs = 0;
constexpr char kOutputs = 0;
constexpr std::uintptr_t kAnswer[] = {1, 2, 3};

}  // namespace

// Has the size of a std::vector and, like it, a destructor: a function returns it in memory that
// the caller provides.
struct Tensors {
  std::uintptr_t content[3];
  ~Tensors() {}  // NOLINT(modernize-use-equals-default)
};

extern "C" {

// Stands for an autograd node: the test finds its name in the blocks' stacks.
[[gnu::visibility("default"), gnu::noinline]] void engine_node(ReportBlock* report) {
  auto* const address = reinterpret_cast<void*>(std::uintptr_t{0x7000'0000'0000});
  report(address, kBytes, kBytes, 1 << 20, Device{});
  report(address, -kBytes, 0, 1 << 20, Device{});
}

// Runs the engine until `stop_file` exists. Returns false if no listener to blocks is loaded. The
// engine's thread calls `run_function`, if given, before each node. With `has_host_node`, the
// calling thread runs a node itself meanwhile.
bool has_host_node = false;
[[gnu::visibility("default")]] bool run_engine(const char* stop_file, void (*run_function)()) {
  auto* const report = reinterpret_cast<ReportBlock*>(
      dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (report == nullptr) return false;
  std::thread engine([&] {
    while (access(stop_file, F_OK) != 0) {
      if (run_function != nullptr) run_function();
      engine_node(report);
      // Nodes of PyTorch take their time, too; more blocks would only fill the ring.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  if (has_host_node) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    engine_node(report);
  }
  engine.join();
  return true;
}

// torch::autograd::Engine::execute() of PyTorch 2, which the recorder intercepts.
[[gnu::visibility("default"), gnu::noinline]] Tensors
engine_execute(const Request* request, const void* roots, const void* inputs, bool keep_graph, bool create_graph, bool accumulate, const void* outputs) __asm__(
    "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EE"
    "RKS2_IN2at6TensorESaIS9_EEbbbS7_");
Tensors engine_execute(const Request* request, const void* roots, const void* inputs,
                       bool keep_graph, bool create_graph, bool accumulate, const void* outputs) {
  if (roots != &kRoots || inputs != &kInputs || !keep_graph || create_graph || !accumulate ||
      outputs != &kOutputs || !run_engine(request->stop_file, request->run_function)) {
    throw std::runtime_error("the engine did not run");
  }
  return {{kAnswer[0], kAnswer[1], kAnswer[2]}};
}

// Calls run_engine() through execute(), as PyTorch calls its engine. The first call of execute()
// throws.
[[gnu::visibility("default")]] bool execute_engine(const char* stop_file, void (*run_function)()) {
  const Request request = {stop_file, run_function};
  bool has_thrown = false;
  try {
    engine_execute(&request, nullptr, &kInputs, true, false, true, &kOutputs);
  } catch (const std::runtime_error&) {
    has_thrown = true;
  }
  const Tensors answer = engine_execute(&request, &kRoots, &kInputs, true, false, true, &kOutputs);
  return has_thrown && answer.content[0] == kAnswer[0] && answer.content[1] == kAnswer[1] &&
         answer.content[2] == kAnswer[2];
}

[[gnu::visibility("default")]] void use_host_node() { has_host_node = true; }

// Reports one block on the calling thread.
[[gnu::visibility("default")]] bool report_here() {
  auto* const report = reinterpret_cast<ReportBlock*>(
      dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (report != nullptr) engine_node(report);
  return report != nullptr;
}
}
