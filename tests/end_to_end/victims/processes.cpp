// SPDX-License-Identifier: Apache-2.0
// Makes child processes in every way there is. A process that `uses CUDA` allocates three times;
// children are told apart by how often they allocate. MODE is the name of a row of kModes below.
// Usage: processes MODE
#include <fcntl.h>
#include <link.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

extern char** environ;

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr int kOfParent = 3;
constexpr int kOfChild = 5;
constexpr int kOfNewProgram = 7;

void use_cuda(int allocations) {
  start_driver();
  for (int index = 0; index < allocations; ++index) free_memory(allocate(kBytes));
}

void wait_for(pid_t child) {
  int status = 0;
  require(child > 0 && waitpid(child, &status, 0) == child, "there is no child");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child has failed");
}

char* const* new_program() {
  static char name[] = "processes";
  static char mode[] = "new_program";
  static char* arguments[] = {name, mode, nullptr};
  return arguments;
}

void become_new_program() {
  execv("/proc/self/exe", new_program());
  _exit(4);
}

// Forks after the process has used CUDA: calls in the child fail, as with the real driver.
void fork_after_use() {
  use_cuda(kOfParent);
  const pid_t child = fork();
  if (child == 0) {
    abi::CUdeviceptr address = 0;
    auto* const allocate = function<abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
    std::exit(allocate(&address, kBytes) == abi::CUDA_SUCCESS ? 1 : 0);
  }
  wait_for(child);
  free_memory(allocate(kBytes));
}

void fork_before_use() {
  const pid_t child = fork();
  if (child == 0) {
    use_cuda(kOfChild);
    std::exit(0);
  }
  wait_for(child);
  use_cuda(kOfParent);
}

// Forks children that run their exit handlers, which are copies of the parent's.
void fork_without_cuda() {
  use_cuda(kOfParent);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    wait_for(child);
  }
  free_memory(allocate(kBytes));
}

void fork_while_threads_run() {
  abi::CUcontext const context = start_driver();
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([context] {
      call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
      for (int round = 0; round < 20000; ++round) free_memory(allocate(kBytes));
    });
  }
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    wait_for(child);
  }
  for (std::thread& thread : threads) thread.join();
}

void fork_and_exec() {
  use_cuda(kOfParent);
  const pid_t child = fork();
  if (child == 0) become_new_program();
  wait_for(child);
}

void vfork_and_exec() {
  use_cuda(kOfParent);
  const pid_t child = vfork();
  if (child == 0) become_new_program();
  wait_for(child);
}

void spawn() {
  use_cuda(kOfParent);
  pid_t child = 0;
  require(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, new_program(), environ) == 0,
          "posix_spawn");
  wait_for(child);
}

pid_t clone_process() {
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
}

int count_module(dl_phdr_info*, std::size_t, void* count) {
  ++*static_cast<int*>(count);
  return 0;
}

// Takes the libc locks that libc does not reset in a child made without its knowledge.
void use_libc() {
  std::free(std::malloc(1 << 20));
  void* const library = dlopen("libutil.so.1", RTLD_NOW);
  require(library != nullptr, "there is no libutil");
  dlclose(library);
  int modules = 0;
  dl_iterate_phdr(count_module, &modules);
  require(modules > 1, "there are no modules");
}

// Makes children by raw clone calls, without libc's knowledge: no handler of pthread_atfork runs.
// The recorder's thread is as busy as possible meanwhile.
void raw_clones() {
  use_cuda(kOfParent);
  for (int round = 0; round < 100; ++round) {
    const pid_t child = clone_process();
    if (child == 0) {
      use_libc();
      _exit(0);
    }
    wait_for(child);
  }
}

// Makes a child by clone3, the system call by which newer libcs make threads.
pid_t clone3_process() {
  clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

// Uses CUDA in a child of raw clone, in which the simulated driver still works.
void use_cuda_in_clone(pid_t (*make_process)()) {
  use_cuda(kOfParent);
  const pid_t child = make_process();
  if (child == 0) {
    use_libc();
    for (int index = 0; index < kOfChild; ++index) free_memory(allocate(kBytes));
    _exit(0);
  }
  wait_for(child);
  free_memory(allocate(kBytes));
}
void raw_clone() { use_cuda_in_clone(clone_process); }
void raw_clone3() { use_cuda_in_clone(clone3_process); }

void vfork_and_exit() {
  use_cuda(kOfParent);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = vfork();
    if (child == 0) _exit(0);
    wait_for(child);
  }
  free_memory(allocate(kBytes));
}

// Leaves its parent, its session and its descriptors, as daemons do, and then uses CUDA.
void become_daemon() {
  require(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "the daemon could not be waited for");
  const pid_t child = fork();
  if (child == 0) {
    require(setsid() > 0, "setsid");
    const pid_t daemon = fork();
    if (daemon != 0) _exit(daemon > 0 ? 0 : 1);
    require(syscall(SYS_close_range, 0, ~0u, 0) == 0, "close_range");
    for (int number = 0; number < 3; ++number) {
      if (open("/dev/null", O_RDWR) != number) _exit(1);
    }
    use_cuda(kOfChild);
    std::exit(0);
  }
  wait_for(child);
  int status = 0;
  require(wait(&status) > 0 && status == 0, "the daemon has failed");
}

void exec_after_use() {
  use_cuda(kOfParent);
  become_new_program();
}

void be_new_program() { use_cuda(kOfNewProgram); }

struct Mode {
  const char* name;
  void (*run)();
};
constexpr Mode kModes[] = {{"fork_after_use", fork_after_use},
                           {"fork_before_use", fork_before_use},
                           {"fork_without_cuda", fork_without_cuda},
                           {"fork_while_threads_run", fork_while_threads_run},
                           {"fork_and_exec", fork_and_exec},
                           {"vfork_and_exec", vfork_and_exec},
                           {"spawn", spawn},
                           {"raw_clone", raw_clone},
                           {"raw_clones", raw_clones},
                           {"raw_clone3", raw_clone3},
                           {"vfork_and_exit", vfork_and_exit},
                           {"daemon", become_daemon},
                           {"exec_after_use", exec_after_use},
                           {"new_program", be_new_program}};

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 2, "usage: processes MODE");
  for (const auto& mode : gpumemtrace::victims::kModes) {
    if (std::strcmp(mode.name, arguments[1]) != 0) continue;
    mode.run();
    return 0;
  }
  gpumemtrace::victims::give_up("there is no such mode");
}
