// SPDX-License-Identifier: Apache-2.0
// Uses CUDA while one system call fails, from before the first use of the device to the end. Prints
// how often it allocated, and ends at the end of its input. Usage: sandboxed NUMBER ERROR
#include "tests/end_to_end/victims/system_call_filter.hpp"

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 3, "usage: sandboxed NUMBER ERROR");
  const auto number = static_cast<unsigned int>(std::atoi(arguments[1]));
  const auto error = static_cast<unsigned int>(std::atoi(arguments[2]));
  // The driver is loaded before the filter is set, which applies to the program's calls, too.
  call(function<abi::cuInit_t>("cuInit")(0), "cuInit");
  function<abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  forbid_system_call(number, error);
  start_driver();
  int rounds = 0;
  for (; rounds < 1000; ++rounds) free_memory(allocate(4096));
  std::printf("%d\n", rounds);
  std::fflush(stdout);
  std::getchar();
  return 0;
}
