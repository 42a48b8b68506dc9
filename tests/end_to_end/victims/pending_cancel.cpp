// SPDX-License-Identifier: Apache-2.0
// A thread that is to be cancelled calls what is no place to cancel a thread at, holding a lock
// that it would never give back: the first CUDA call of the process, each function that we wrap,
// each function that ends the process. Prints how many functions it called, and whose call did not
// return. Usage: pending_cancel
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kEnded = 5;
constexpr int kReturned = 6;
constexpr int kCancelled = 9;

abi::CUcontext context = nullptr;
int called = 0;

struct Child {
  void (*work)() = nullptr;
  bool is_first = false;  // its first call of CUDA
};

void* call_with_pending_cancel(void* argument) {
  const auto* const child = static_cast<const Child*>(argument);
  if (!child->is_first) {
    call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    for (int i = 0; i < 5'000; ++i) free_memory(allocate(4096));
  }
  pthread_cancel(pthread_self());
  child->work();
  _exit(kReturned);
}

// In a process of its own.
void run(const char* name, const Child& child, int expected) {
  ++called;
  const pid_t process = fork();
  require(process >= 0, "no process");
  if (process == 0) {
    if (!child.is_first) context = start_driver();
    pthread_t thread;
    void* argument = const_cast<Child*>(&child);
    require(pthread_create(&thread, nullptr, call_with_pending_cancel, argument) == 0, "no thread");
    pthread_join(thread, nullptr);
    _exit(kCancelled);
  }
  int status = 0;
  require(waitpid(process, &status, 0) == process, "no child");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) {
    std::printf("%s: %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
}

// By the names of the list of functions that end the process: the one that has no such function
// here is not compiled.
#define SHELL "/bin/sh"
#define ENDS "exit 5"
char* const kArguments[] = {const_cast<char*>(SHELL), const_cast<char*>("-c"),
                            const_cast<char*>(ENDS), nullptr};
void end_by__exit() { _exit(kEnded); }
void end_by__Exit() { _Exit(kEnded); }
void end_by_quick_exit() { quick_exit(kEnded); }
void end_by_execl() { execl(SHELL, SHELL, "-c", ENDS, nullptr); }
void end_by_execle() { execle(SHELL, SHELL, "-c", ENDS, nullptr, environ); }
void end_by_execlp() { execlp("sh", SHELL, "-c", ENDS, nullptr); }
void end_by_execv() { execv(SHELL, kArguments); }
void end_by_execve() { execve(SHELL, kArguments, environ); }
void end_by_execveat() { execveat(-1, SHELL, kArguments, environ, 0); }
void end_by_execvp() { execvp("sh", kArguments); }
void end_by_execvpe() { execvpe("sh", kArguments, environ); }
void end_by_fexecve() {
  // By the system call: open() is a place to cancel a thread at.
  const long shell = syscall(SYS_openat, AT_FDCWD, SHELL, O_RDONLY);
  fexecve(static_cast<int>(shell), kArguments, environ);
}

void call_each_row() {
  const auto call_row = [](const char* symbol) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    void* const found = dlsym(library, symbol);
    using Any = int(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
    // Each of them refuses, as nobody has called cuInit().
    if (found != nullptr) {
      reinterpret_cast<Any*>(found)(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, nullptr, nullptr, nullptr);
    }
  };
#define GPUMEMTRACE_API(symbol, runtime, ...) call_row(#symbol);
#include "preload/driver/apis.def"
}

// The process's first call, and the recording it begins.
void begin() {
  context = start_driver();
  free_memory(allocate(4096));
}

void run_all() {
  run("the first call", {begin, true}, kReturned);
  run("each row", {call_each_row, true}, kReturned);
#define GPUMEMTRACE_EXIT_FUNCTION(symbol, kind) run(#symbol, {end_by_##symbol, false}, kEnded);
#include "preload/loader/exit_functions.def"
  std::printf("%d\n", called);
}

}  // namespace
}  // namespace gpumemtrace::victims

int main() {
  gpumemtrace::victims::run_all();
  return 0;
}
