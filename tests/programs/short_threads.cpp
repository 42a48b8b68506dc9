// Many threads one after the other, a few calls each. Usage: short_threads [THREADS]
#include <cstddef>
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

int run(int count, char** arguments) {
  const int wanted = count > 1 ? std::atoi(arguments[1]) : 1000;
  require(wanted > 0, "the number of threads is a positive number");
  abi::CUcontext context = start_on_device();
  for (int index = 0; index < wanted; ++index) std::thread(work, context).join();
  return finish("short_threads");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
