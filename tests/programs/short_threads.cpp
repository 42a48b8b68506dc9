// SPDX-License-Identifier: Apache-2.0
// Runs many threads one after the other, which make a few calls each. Prints the peak resident
// memory, then the truth. Usage: short_threads [THREADS]
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = 4096;

void work(abi::CUcontext context) {
  GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
  free_device(allocate_device(kBytes), kBytes);
}

// The peak of this program alone: getrusage() would include the process that started it.
unsigned long peak_resident_kilobytes() {
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  require(status != nullptr, "the process's status can be read");
  char line[256];
  unsigned long kilobytes = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %lu kB", &kilobytes) == 1) break;
  }
  std::fclose(status);
  return kilobytes;
}

int run(int count, char** arguments) {
  const int wanted = count > 1 ? std::atoi(arguments[1]) : 1000;
  require(wanted > 0, "the number of threads is a positive number");
  abi::CUcontext context = start_on_device();
  for (int index = 0; index < wanted; ++index) std::thread(work, context).join();
  std::printf("{\"peak_resident_bytes\": %lu}\n", peak_resident_kilobytes() * 1024);
  return finish("short_threads");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
