// SPDX-License-Identifier: Apache-2.0
// A thread with a pending cancellation calls functions that are no cancellation points: the first
// CUDA call of the process, each function that the recorder wraps, each function that ends the
// process. A call that acts on the cancellation may leave the recorder's locks held. Prints how
// many functions it called, and the names of those that did not return. Usage: pending_cancel
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
  bool is_first = false;  // `work` makes the process's first CUDA call
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

// Runs `child` in a child process; prints its exit code if that is not `expected`.
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

// The names follow the list of functions that end the process: a function of that list that is
// missing here does not compile.
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
  // Opens by the system call, since open() is a cancellation point.
  const long shell = syscall(SYS_openat, AT_FDCWD, SHELL, O_RDONLY);
  fexecve(static_cast<int>(shell), kArguments, environ);
}

void call_each_row() {
  const auto call_row = [](const char* symbol) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    void* const found = dlsym(library, symbol);
    using Any = int(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
    // Each function fails at once, as cuInit() was not called.
    if (found != nullptr) {
      reinterpret_cast<Any*>(found)(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, nullptr, nullptr, nullptr);
    }
  };
#define GPUMEMTRACE_API(symbol, runtime, ...) call_row(#symbol);
#include "preload/driver/apis.def"
}

// The process's first CUDA call, which also begins the recording.
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
