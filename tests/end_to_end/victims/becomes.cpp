// SPDX-License-Identifier: Apache-2.0
// Uses CUDA and then runs another program by each exec function of libc. The new program is this
// one again: it checks its arguments and an environment variable, uses CUDA, and exits. Usage:
// becomes FORM
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/end_to_end/victims/driver_calls.hpp"

extern char** environ;

namespace gpumemtrace::victims {
namespace {

constexpr char kSelf[] = "/proc/self/exe";
constexpr char kVariable[] = "BECOMES_TEST";

void use_cuda(int allocations) {
  start_driver();
  for (int index = 0; index < allocations; ++index) free_memory(allocate(4096));
}

char** arguments() {
  static char words[][8] = {"becomes", "new", "3", "4", "5", "6", "7"};
  static char* pointers[] = {words[0], words[1], words[2], words[3],
                             words[4], words[5], words[6], nullptr};
  return pointers;
}

int self() { return open(kSelf, O_RDONLY | O_CLOEXEC); }

void by_execl() { execl(kSelf, "becomes", "new", "3", "4", "5", "6", "7", nullptr); }
void by_execle() { execle(kSelf, "becomes", "new", "3", "4", "5", "6", "7", nullptr, environ); }
void by_execlp() { execlp(kSelf, "becomes", "new", "3", "4", "5", "6", "7", nullptr); }
void by_execv() { execv(kSelf, arguments()); }
void by_execve() { execve(kSelf, arguments(), environ); }
void by_execvp() { execvp(kSelf, arguments()); }
void by_execvpe() { execvpe(kSelf, arguments(), environ); }
void by_fexecve() { fexecve(self(), arguments(), environ); }

// Checks that execl() of a missing program fails and returns.
void by_nothing() {
  errno = 0;
  require(execl("/of/nobody", "becomes", "new", nullptr) == -1 && errno == ENOENT,
          "what is not there was run");
}
void fails() {
  by_nothing();
  std::exit(0);
}
void fails_and_goes_on() {
  by_nothing();
  free_memory(allocate(4096));
  raise(SIGKILL);
}
// The parent is killed later, so an end in its trace could only come from the child.
void fails_in_a_child() {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/of/nobody", "becomes", "new", nullptr);
    _exit(127);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 127, "no such child");
  free_memory(allocate(4096));
  raise(SIGKILL);
}
void while_a_thread_works() {
  std::thread([] {
    start_driver();
    for (;;) free_memory(allocate(4096));
  }).detach();
  by_execv();
}

struct Form {
  const char* name;
  void (*become)();
};
constexpr Form kForms[] = {{"execl", by_execl},
                           {"execle", by_execle},
                           {"execlp", by_execlp},
                           {"execv", by_execv},
                           {"execve", by_execve},
                           {"execvp", by_execvp},
                           {"execvpe", by_execvpe},
                           {"fexecve", by_fexecve},
                           {"fails", fails},
                           {"fails_and_goes_on", fails_and_goes_on},
                           {"fails_in_a_child", fails_in_a_child},
                           {"while_a_thread_works", while_a_thread_works}};

int be_new(int count, char** words) {
  require(count == 7, "words are missing");
  for (int index = 0; index < count; ++index) {
    require(std::strcmp(words[index], arguments()[index]) == 0, "a word is another one");
  }
  const char* const variable = getenv(kVariable);
  require(variable != nullptr && std::strcmp(variable, "here") == 0, "the variable is missing");
  use_cuda(2);
  return 0;
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** words) {
  using namespace gpumemtrace::victims;
  require(count >= 2, "usage: becomes FORM");
  if (std::strcmp(words[1], "new") == 0) return be_new(count, words);
  for (const auto& form : kForms) {
    if (std::strcmp(form.name, words[1]) != 0) continue;
    setenv(kVariable, "here", 1);
    use_cuda(3);
    form.become();
  }
  give_up("the program is still the old one");
}
