// SPDX-License-Identifier: Apache-2.0
// Shares memory between processes: the parent allocates and sends a handle; the child (this program
// again, with the argument `child`) opens the handle, reads the memory and closes it. Each process
// prints the truth about its own calls.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

extern char** environ;

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr unsigned char kPattern = 0x77;

int run_child() {
  abi::CUipcMemHandle handle{};
  require(read(STDIN_FILENO, &handle, sizeof handle) == sizeof handle, "the handle arrives");
  start_on_device();
  abi::CUdeviceptr address = 0;
  GPUMEMTRACE_CALL(cuIpcOpenMemHandle_v2, &address, handle,
                   abi::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  truth().allocated("imported", "ipc", kBytes);
  std::vector<unsigned char> host(kBytes);
  GPUMEMTRACE_CALL(cuMemcpyDtoH_v2, host.data(), address, kBytes);
  truth().copied("device_to_host", kBytes);
  require(host.front() == kPattern && host.back() == kPattern, "the child sees the same bytes");
  GPUMEMTRACE_CALL(cuIpcCloseMemHandle, address);
  truth().freed("imported", "ipc", kBytes);
  const abi::CUdeviceptr own = allocate_device(kBytes / 2);
  free_device(own, kBytes / 2);
  return finish("ipc_parent_child.child");
}

// Starts this program again with a pipe as its standard input; returns the pipe's write end.
int start_child(const char* program, pid_t* child) {
  int ends[2];
  require(pipe(ends) == 0, "a pipe can be made");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string name = program;
  std::string argument = "child";
  char* arguments[] = {name.data(), argument.data(), nullptr};
  require(posix_spawn(child, "/proc/self/exe", &actions, nullptr, arguments, environ) == 0,
          "the child starts");
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  return ends[1];
}

int run_parent(const char* program) {
  start_on_device();
  const abi::CUdeviceptr address = allocate_device(kBytes);
  GPUMEMTRACE_CALL(cuMemsetD8_v2, address, kPattern, kBytes);
  truth().set(kBytes);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
  abi::CUipcMemHandle handle{};
  const abi::CUresult exported = GPUMEMTRACE_TRY(cuIpcGetMemHandle, &handle, address);
  if (exported != abi::CUDA_SUCCESS) {
    skip_program("memory cannot be shared here: " + result_name(exported));
  }
  pid_t child = 0;
  const int to_child = start_child(program, &child);
  require(write(to_child, &handle, sizeof handle) == sizeof handle, "the handle is sent");
  int status = 0;
  require(waitpid(child, &status, 0) == child, "the child ends");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child succeeds");
  free_device(address, kBytes);
  return finish("ipc_parent_child");
}

int run(int count, char** arguments) {
  const bool is_child = count > 1 && std::strcmp(arguments[1], "child") == 0;
  return is_child ? run_child() : run_parent(arguments[0]);
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
