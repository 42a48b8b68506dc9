// SPDX-License-Identifier: Apache-2.0
// What PyTorch's autograd engine is to the recorder: a function that a Python thread calls without
// the GIL and that waits while another thread, without Python frames, uses the allocator.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace {

// c10::Device: type 1 is CUDA.
struct Device {
  std::int8_t type = 1;
  std::int8_t index = 0;
};
using ReportBlock = void(void*, std::int64_t, std::size_t, std::size_t, Device);

constexpr std::int64_t kBytes = 512;

}  // namespace

extern "C" {

// Stands for an autograd node: the test finds its name in the blocks' stacks.
[[gnu::visibility("default"), gnu::noinline]] void engine_node(ReportBlock* report) {
  auto* const address = reinterpret_cast<void*>(std::uintptr_t{0x7000'0000'0000});
  report(address, kBytes, kBytes, 1 << 20, Device{});
  report(address, -kBytes, 0, 1 << 20, Device{});
}

// Returns when the file exists. False where nobody listens to blocks. `run_function`, where it is
// given, is called by the engine's thread before each node.
[[gnu::visibility("default")]] bool run_engine(const char* stop_file, void (*run_function)()) {
  auto* const report = reinterpret_cast<ReportBlock*>(
      dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (report == nullptr) return false;
  std::thread engine([&] {
    while (access(stop_file, F_OK) != 0) {
      if (run_function != nullptr) run_function();
      engine_node(report);
      // As nodes take their time; too many blocks would only fill the ring.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  engine.join();
  return true;
}

// One block on the calling thread.
[[gnu::visibility("default")]] bool report_here() {
  auto* const report = reinterpret_cast<ReportBlock*>(
      dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (report != nullptr) engine_node(report);
  return report != nullptr;
}
}
