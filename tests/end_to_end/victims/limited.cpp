// SPDX-License-Identifier: Apache-2.0
// Uses CUDA under a resource limit that is set after the driver is loaded. Prints how often it
// allocated. With `shared`, no thread can have its own table of file descriptors.
// Usage: limited AS|NOFILE|FSIZE|STACK VALUE ROUNDS [shared]; VALUE of AS and NOFILE is added to
// the amount in use, that of STACK is the default stack size of threads.
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"
#include "tests/end_to_end/victims/system_call_filter.hpp"

namespace gpumemtrace::victims {
namespace {

rlim_t address_space_in_use() {
  unsigned long pages = 0;
  std::FILE* const statm = std::fopen("/proc/self/statm", "r");
  require(statm != nullptr && std::fscanf(statm, "%lu", &pages) == 1, "no statm");
  std::fclose(statm);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

rlim_t descriptors_in_use() {
  const int next = open("/dev/null", O_RDONLY);
  close(next);
  return static_cast<rlim_t>(next);
}

void set_usual_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  require(pthread_attr_init(&attributes) == 0 &&
              pthread_attr_setstacksize(&attributes, bytes) == 0 &&
              pthread_setattr_default_np(&attributes) == 0,
          "the usual stack cannot be set");
}

void set_limit(const char* name, rlim_t value) {
  if (std::strcmp(name, "STACK") == 0) return set_usual_stack(value);
  rlimit limit = {value, RLIM_INFINITY};
  int resource = RLIMIT_FSIZE;
  if (std::strcmp(name, "AS") == 0) {
    resource = RLIMIT_AS;
    limit.rlim_cur += address_space_in_use();
  } else if (std::strcmp(name, "NOFILE") == 0) {
    resource = RLIMIT_NOFILE;
    limit.rlim_cur += descriptors_in_use();
    limit.rlim_max = limit.rlim_cur;
  }
  require(setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0, "no such limit");
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 4 || count == 5, "usage: limited AS|NOFILE|FSIZE|STACK VALUE ROUNDS [shared]");
  if (count == 5) forbid_own_descriptors();
  call(function<abi::cuInit_t>("cuInit")(0), "cuInit");
  set_limit(arguments[1], std::strtoul(arguments[2], nullptr, 10));
  const int rounds = std::atoi(arguments[3]);
  start_driver();
  for (int round = 0; round < rounds; ++round) free_memory(allocate(4096));
  std::printf("%d\n", rounds);
  return 0;
}
