// SPDX-License-Identifier: Apache-2.0
// Closes all file descriptors from FIRST on while its threads use CUDA, as a daemon does, and
// reuses all their numbers for FILE. Each of CHILDREN processes begins at a different moment and
// repeats it until its threads have allocated and freed ROUNDS times. FILE must exist; nobody may
// write to it. Fails if other code closed a number or read from it. Prints how often all numbers
// were taken. With `shared`, no thread can have its own table of descriptors.
// Usage: takes_numbers FILE FIRST CHILDREN THREADS ROUNDS own|shared
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"
#include "tests/end_to_end/victims/system_call_filter.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr unsigned kNumbers = 640;  // includes the numbers of the recorder's descriptors
// Exit codes report errors, because standard error may be FILE.
constexpr int kFileIsMissing = 10;
constexpr int kNumberWasUsed = 11;

void take_all_numbers(const char* path, unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) != 0) _exit(kFileIsMissing);
  const int file = open(path, O_RDWR);
  if (file < 0) _exit(kFileIsMissing);
  for (unsigned number = first; number < kNumbers; ++number) {
    if (dup2(file, static_cast<int>(number)) < 0) _exit(kFileIsMissing);
  }
}

void require_all_numbers(const char* path, unsigned first) {
  struct stat expected;
  if (stat(path, &expected) != 0) _exit(kFileIsMissing);
  for (unsigned number = first; number < kNumbers; ++number) {
    struct stat found;
    if (fstat(static_cast<int>(number), &found) != 0 || found.st_ino != expected.st_ino) {
      _exit(kNumberWasUsed);
    }
  }
  if (lseek(static_cast<int>(first), 0, SEEK_CUR) != 0) _exit(kNumberWasUsed);
}

void work(abi::CUcontext context, int rounds, std::atomic<int>* done) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  for (int round = 0; round < rounds; ++round) {
    free_memory(allocate(4096));
    ++*done;
  }
}

// The children's common count, in memory that they share.
std::atomic<int>* take_count = nullptr;

void be_child(const char* path, unsigned first, int thread_count, int rounds, int moment) {
  abi::CUcontext const context = start_driver();
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < thread_count; ++index) {
    threads.emplace_back(work, context, rounds, &done);
  }
  while (done < moment) std::this_thread::yield();
  do {
    take_all_numbers(path, first);
    ++*take_count;
  } while (done < rounds * thread_count);
  for (std::thread& thread : threads) thread.join();
  require_all_numbers(path, first);
}

int run(const char* path, unsigned first, int children, int thread_count, int rounds) {
  const rlimit limit{kNumbers + 100, kNumbers + 100};
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit cannot be set");
  void* const shared =
      mmap(nullptr, sizeof *take_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "there is no memory");
  take_count = new (shared) std::atomic<int>(0);
  for (int number = 0; number < children; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      be_child(path, first, thread_count, rounds, 1 + number * rounds / children);
      return 0;
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "there is no child");
    require(status == 0, WIFEXITED(status) && WEXITSTATUS(status) == kNumberWasUsed
                             ? "a number of the program was closed or read from"
                             : "a child has failed");
  }
  std::printf("%d\n", take_count->load());
  return 0;
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 7, "usage: takes_numbers FILE FIRST CHILDREN THREADS ROUNDS own|shared");
  if (std::strcmp(arguments[6], "shared") == 0) forbid_own_descriptors();
  return run(arguments[1], static_cast<unsigned>(std::atoi(arguments[2])), std::atoi(arguments[3]),
             std::atoi(arguments[4]), std::atoi(arguments[5]));
}
