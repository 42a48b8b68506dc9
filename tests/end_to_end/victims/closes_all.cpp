// Closes every descriptor but the first three while it uses CUDA, then opens files of its own under
// all the numbers, and goes on. Prints `untouched` where nobody else wrote to them.
// Usage: closes_all FILE THREADS
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kLastDescriptor = 600;
constexpr char kContent[] = "a file of the program";

void open_all_numbers(const char* path) {
  const int first = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  require(first >= 0, "the file cannot be made");
  require(write(first, kContent, sizeof kContent) == sizeof kContent, "the file cannot be written");
  while (dup(first) < kLastDescriptor) {
  }
}

void work(abi::CUcontext context) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  for (int round = 0; round < 20000; ++round) free_memory(allocate(4096));
}

void run(const char* path, int thread_count) {
  const rlimit limit{kLastDescriptor + 100, kLastDescriptor + 100};
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit cannot be set");
  abi::CUcontext const context = start_driver();
  free_memory(allocate(4096));
  for (int descriptor = 3; descriptor < kLastDescriptor; ++descriptor) close(descriptor);
  open_all_numbers(path);
  std::vector<std::thread> threads;
  for (int index = 0; index < thread_count; ++index) threads.emplace_back(work, context);
  for (std::thread& thread : threads) thread.join();
  struct stat status;
  require(stat(path, &status) == 0, "the file is gone");
  std::printf(status.st_size == sizeof kContent ? "untouched\n" : "changed\n");
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 3, "usage: closes_all FILE THREADS");
  gpumemtrace::victims::run(arguments[1], std::atoi(arguments[2]));
  return 0;
}
