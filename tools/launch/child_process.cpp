// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr auto kForwardedSignals =
    std::to_array<int>({SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});

// The PID of the child, for the signal handler. A lock-free atomic is not needed: the handler runs
// on the only thread.
volatile sig_atomic_t child_to_signal = 0;

void forward_signal(int number, siginfo_t* info, void*) {
  const int saved_errno = errno;
  // A signal from the terminal (SI_KERNEL) went to the whole process group, the child included.
  const bool sent_by_process = info->si_code == SI_USER || info->si_code == SI_QUEUE;
  if (sent_by_process && child_to_signal > 0) kill(child_to_signal, number);
  errno = saved_errno;
}

// Blocks the forwarded signals from before the fork until the handlers know the child's PID. The
// destructor restores the signal mask and the handlers.
class SignalForwarding {
 public:
  SignalForwarding() {
    sigset_t forwarded;
    sigemptyset(&forwarded);
    for (const int number : kForwardedSignals) sigaddset(&forwarded, number);
    sigprocmask(SIG_BLOCK, &forwarded, &mask_before_);
  }

  ~SignalForwarding() {
    if (installed_) {
      for (std::size_t i = 0; i < kForwardedSignals.size(); ++i) {
        sigaction(kForwardedSignals[i], &actions_before_[i], nullptr);
      }
      child_to_signal = 0;
    }
    restore_mask();
  }

  SignalForwarding(const SignalForwarding&) = delete;
  SignalForwarding& operator=(const SignalForwarding&) = delete;

  void start(pid_t child) {
    struct sigaction action = {};
    action.sa_sigaction = forward_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kForwardedSignals.size(); ++i) {
      sigaction(kForwardedSignals[i], &action, &actions_before_[i]);
    }
    installed_ = true;
    child_to_signal = child;
    restore_mask();
  }

  void restore_mask() { sigprocmask(SIG_SETMASK, &mask_before_, nullptr); }

 private:
  sigset_t mask_before_ = {};
  std::array<struct sigaction, kForwardedSignals.size()> actions_before_ = {};
  bool installed_ = false;
};

// A pipe by which the child tells its parent why exec failed; a successful exec closes the pipe
// (O_CLOEXEC) without data.
class StartPipe {
 public:
  StartPipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw Failure(
          format_text("pipe2 failed: {}; free some file descriptors", std::strerror(errno)));
    }
  }
  ~StartPipe() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  StartPipe(const StartPipe&) = delete;
  StartPipe& operator=(const StartPipe&) = delete;

  void report(int error) const {
    [[maybe_unused]] const ssize_t written = write(ends_[1], &error, sizeof(error));
  }

  // Waits until exec has succeeded or failed; returns 0 or the errno of exec.
  int wait_for_start() {
    close(ends_[1]);
    ends_[1] = -1;
    int error = 0;
    ssize_t received = 0;
    do {
      received = read(ends_[0], &error, sizeof(error));
    } while (received < 0 && errno == EINTR);
    return received == sizeof(error) ? error : 0;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

// Replaces this process, the forked child, by the command. If exec fails, the parent gets its errno
// through `start`.
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<EnvironmentVariable>& environment,
                         const StartPipe& start) {
  for (const EnvironmentVariable& variable : environment) {
    setenv(variable.name.c_str(), variable.value.c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  start.report(errno);
  _exit(to_int(ExitCode::kFailure));
}

int wait_for_end(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw Failure(format_text("waiting for process {} failed: {}; see whether it still runs",
                                child, std::strerror(errno)));
    }
  }
  return status;
}

std::string start_failure(const std::string& program, int error) {
  const char* remedy = "see whether it runs without gpumemtrace";
  if (error == ENOENT) remedy = "check the name and PATH";
  if (error == EACCES) remedy = "it must be a file that you may execute";
  return format_text("cannot run '{}': {}; {}", program, std::strerror(error), remedy);
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command,
                   const std::vector<EnvironmentVariable>& environment) {
  StartPipe start;
  SignalForwarding forwarding;
  const pid_t child = fork();
  if (child < 0) {
    throw Failure(
        format_text("cannot start another process: {}; see `ulimit -u`", std::strerror(errno)));
  }
  if (child == 0) {
    forwarding.restore_mask();
    become(command, environment, start);
  }
  forwarding.start(child);
  const int error = start.wait_for_start();
  const int status = wait_for_end(child);
  if (error != 0) throw Failure(start_failure(command.front(), error));
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status), child};
  return {WEXITSTATUS(status), 0, child};
}

}  // namespace gpumemtrace::tools
