// SPDX-License-Identifier: Apache-2.0
// Called by pair_workloads.py through ctypes if there is no GPU: reports blocks as PyTorch's
// allocator does, with work between them, on the calling thread or on a thread that plays the
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

// Makes this number of multiplications; each has to wait for the result of the one before.
void work(std::uint32_t multiplications) {
  std::uint64_t value = multiplications | 1;
  for (std::uint32_t i = 0; i < multiplications; ++i) value *= 0x9e37'79b9'7f4a'7c15u;
  keep(value);
}

void* address_of(std::uint64_t base, std::uint32_t number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(base + number * kBlockBytes));
}

// Allocates `pairs` blocks and frees each after kLiveBlocks later ones; works before each event.
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

// The autograd engine's thread: sleeps until another thread gives it work and waits for it.
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

// Has the size of a std::vector and, like it, a destructor: a function returns it in memory that
// the caller provides.
struct Tensors {
  void* content[3];
  ~Tensors() {}  // NOLINT(modernize-use-equals-default)
};

// torch::autograd::Engine::execute() of PyTorch 2, which the recorder intercepts.
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

// To be called first. Returns false if this library's symbols are not in the global scope.
[[gnu::visibility("default")]] bool simulated_begin() {
  using namespace gpumemtrace::bench;
  // Finds the recorder's function, or that of noop_c10.cpp, which is linked in.
  report_block = reinterpret_cast<ReportBlock*>(dlsym(RTLD_DEFAULT, kReportBlock));
  return report_block != nullptr;
}

[[gnu::visibility("default")]] void simulated_blocks(std::uint32_t pairs,
                                                     std::uint32_t multiplications) {
  gpumemtrace::bench::use_blocks(0x7100'0000'0000, pairs, multiplications);
}

// Uses blocks as simulated_blocks(), but on the engine's thread, for which the calling thread
// waits. Only one caller at a time.
[[gnu::visibility("default")]] void simulated_backward(std::uint32_t pairs,
                                                       std::uint32_t multiplications) {
  // Never destroyed: the engine's thread lives as long as the process.
  static auto* const engine = new gpumemtrace::bench::Engine;
  const gpumemtrace::bench::Request request = {engine, pairs, multiplications};
  engine_execute(&request, nullptr, nullptr, false, false, true, nullptr);
}
}
