// SPDX-License-Identifier: Apache-2.0
// Called by pair_workloads.py through ctypes if there is no GPU: blocks as PyTorch's allocator
// reports them, with work between them, on the calling thread or on one that stands for the
// autograd engine's. The calls release the GIL.

#include <dlfcn.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "bench/noop_calls.hpp"
#include "bench/stopwatch.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr char kReportBlock[] = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
constexpr std::int64_t kBlockBytes = 512;
constexpr std::uint32_t kLiveBlocks = 8;

ReportBlock* report_block = nullptr;

// As many multiplications, each of which waits for the one before.
void work(std::uint32_t multiplications) {
  std::uint64_t value = multiplications | 1;
  for (std::uint32_t i = 0; i < multiplications; ++i) value *= 0x9e37'79b9'7f4a'7c15u;
  keep(value);
}

void* address_of(std::uint64_t base, std::uint32_t number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(base + number * kBlockBytes));
}

// `pairs` blocks, each taken back when kLiveBlocks later ones are there; work before each event.
void use_blocks(std::uint64_t base, std::uint32_t pairs, std::uint32_t multiplications) {
  for (std::uint32_t i = 0; i < pairs + kLiveBlocks; ++i) {
    if (i < pairs) {
      work(multiplications);
      report_block(address_of(base, i), kBlockBytes, kBlockBytes, 1 << 20, C10Device{});
    }
    if (i >= kLiveBlocks) {
      work(multiplications);
      report_block(address_of(base, i - kLiveBlocks), -kBlockBytes, 0, 1 << 20, C10Device{});
    }
  }
}

// The engine's thread: sleeps until another thread waits for it.
class Engine {
 public:
  void run(std::uint32_t pairs, std::uint32_t multiplications) {
    std::unique_lock lock(mutex_);
    if (!started_) std::thread([this] { work_for_ever(); }).detach();
    started_ = true;
    pairs_ = pairs;
    multiplications_ = multiplications;
    has_work_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !has_work_; });
  }

 private:
  [[noreturn]] void work_for_ever() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return has_work_; });
      use_blocks(0x7200'0000'0000, pairs_, multiplications_);
      has_work_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  bool has_work_ = false;
  std::uint32_t pairs_ = 0;
  std::uint32_t multiplications_ = 0;
};

struct Request {
  Engine* engine;
  std::uint32_t pairs;
  std::uint32_t multiplications;
};

}  // namespace
}  // namespace gpumemtrace::bench

// As large as a vector, and made where the caller says, as one is.
struct Tensors {
  void* content[3];
  ~Tensors() {}  // NOLINT(modernize-use-equals-default)
};

// torch::autograd::Engine::execute() of PyTorch 2, before which the recorder stands.
[[gnu::visibility("default"), gnu::noinline]] Tensors
engine_execute(const void* engine, const void* roots, const void* inputs, bool keep_graph, bool create_graph, bool accumulate, const void* outputs) __asm__(
    "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EE"
    "RKS2_IN2at6TensorESaIS9_EEbbbS7_");
Tensors engine_execute(const void* engine, const void*, const void*, bool, bool, bool,
                       const void*) {
  const auto& request = *static_cast<const gpumemtrace::bench::Request*>(engine);
  request.engine->run(request.pairs, request.multiplications);
  return {};
}

extern "C" {

// First of all. False if this library is not in the global scope.
[[gnu::visibility("default")]] bool simulated_begin() {
  using namespace gpumemtrace::bench;
  // The recorder's function, or noop_c10.cpp's, which is linked in.
  report_block = reinterpret_cast<ReportBlock*>(dlsym(RTLD_DEFAULT, kReportBlock));
  return report_block != nullptr;
}

[[gnu::visibility("default")]] void simulated_blocks(std::uint32_t pairs,
                                                     std::uint32_t multiplications) {
  gpumemtrace::bench::use_blocks(0x7100'0000'0000, pairs, multiplications);
}

// The same on the engine's thread, for which the calling one waits. One caller at a time.
[[gnu::visibility("default")]] void simulated_backward(std::uint32_t pairs,
                                                       std::uint32_t multiplications) {
  // Never destroyed: its thread lives as long as the process.
  static auto* const engine = new gpumemtrace::bench::Engine;
  const gpumemtrace::bench::Request request = {engine, pairs, multiplications};
  engine_execute(&request, nullptr, nullptr, false, false, true, nullptr);
}
}
