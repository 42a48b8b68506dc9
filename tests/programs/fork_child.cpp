// SPDX-License-Identifier: Apache-2.0
// Starts processes: in a child of fork the driver does not work and calls fail; a child that
// executes this program again (argument `child`) uses CUDA on its own. The parent and that child
// print the truth about their own calls.
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

void wait_for(pid_t child) {
  int status = 0;
  require(waitpid(child, &status, 0) == child, "the child ends");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child succeeds");
}

int use_cuda_in_new_program() {
  start_on_device();
  allocate_device(kBytes);  // leaked on purpose
  free_device(allocate_device(2 * kBytes), 2 * kBytes);
  return finish("fork_child.child");
}

int run(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "child") == 0) return use_cuda_in_new_program();
  start_on_device();
  const abi::CUdeviceptr address = allocate_device(kBytes);

  const pid_t forked = fork();
  if (forked == 0) {
    abi::CUdeviceptr refused = 0;
    const abi::CUresult result = GPUMEMTRACE_FUNCTION(cuMemAlloc_v2)(&refused, kBytes);
    _exit(result == abi::CUDA_SUCCESS ? 1 : 0);
  }
  wait_for(forked);

  const pid_t replaced = fork();
  if (replaced == 0) {
    execl("/proc/self/exe", arguments[0], "child", nullptr);
    _exit(1);
  }
  wait_for(replaced);
  free_device(address, kBytes);
  return finish("fork_child");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
