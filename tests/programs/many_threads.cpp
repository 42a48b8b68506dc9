// SPDX-License-Identifier: Apache-2.0
// Threads allocate, copy and free at once, each on its own stream. Barriers make the peak the same
// in every run. Usage: many_threads [THREADS]
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBlocks = 50;
constexpr std::size_t kBytes = 40000;

void work(abi::CUcontext context, std::barrier<>* everyone) {
  GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
  abi::CUstream stream = nullptr;
  GPUMEMTRACE_CALL(cuStreamCreate, &stream, abi::CU_STREAM_NON_BLOCKING);
  std::vector<unsigned char> host(kBytes);
  std::vector<abi::CUdeviceptr> blocks;
  for (std::size_t index = 0; index < kBlocks; ++index) {
    blocks.push_back(allocate_device(kBytes));
    GPUMEMTRACE_CALL(cuMemcpyHtoDAsync_v2, blocks.back(), host.data(), kBytes, stream);
    truth().copied("host_to_device", kBytes);
  }
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  everyone->arrive_and_wait();
  for (const abi::CUdeviceptr block : blocks) free_device(block, kBytes);
  GPUMEMTRACE_CALL(cuStreamDestroy_v2, stream);
}

int run(int count, char** arguments) {
  const int wanted = count > 1 ? std::atoi(arguments[1]) : 16;
  require(wanted > 0, "the number of threads is a positive number");
  abi::CUcontext context = start_on_device();
  std::barrier everyone(wanted);
  std::vector<std::thread> threads;
  for (int index = 0; index < wanted; ++index) threads.emplace_back(work, context, &everyone);
  for (std::thread& thread : threads) thread.join();
  return finish("many_threads");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
