// SPDX-License-Identifier: Apache-2.0
// Measures the stack bytes that calls of driver functions take, by a thread whose stack is filled
// with a mark. Prints a line `WHAT BYTES` for the first call of the process, the first of another
// thread, many calls, and calls from ever new places.
#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kStackBytes = 1 << 20;
constexpr unsigned char kMark = 0xa5;
constexpr std::size_t kBytes = 4096;

struct Work {
  const char* name;
  void (*run)();
};

// Allocates from a different call stack for each depth.
[[gnu::noinline]] void allocate_at_depth(int depth) {
  if (depth > 0) {
    allocate_at_depth(depth - 1);
  } else {
    free_memory(allocate(kBytes));
  }
  __asm__ volatile("");  // prevents a tail call
}

abi::CUcontext context = nullptr;

void enter_context() {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
}

void call_first_of_process() {
  context = start_driver();
  free_memory(allocate(kBytes));
}
void call_first_of_thread() {
  enter_context();
  free_memory(allocate(kBytes));
}
void call_often() {
  enter_context();
  for (int round = 0; round < 20000; ++round) free_memory(allocate(kBytes));
}
void call_from_new_places() {
  enter_context();
  for (int depth = 1; depth < 8; ++depth) allocate_at_depth(depth);
}

struct Task {
  void (*run)();
  std::uintptr_t begin = 0;  // address of the calling frame
};

void* work(void* argument) {
  auto* const task = static_cast<Task*>(argument);
  task->begin = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  task->run();
  return nullptr;
}

// Runs `run` on a marked stack; returns the number of bytes touched below the calling frame.
std::size_t stack_of(void (*run)()) {
  void* const stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(stack != MAP_FAILED, "no stack");
  std::memset(stack, kMark, kStackBytes);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  require(pthread_attr_setstack(&attributes, stack, kStackBytes) == 0, "no attributes");
  Task task{run};
  pthread_t thread;
  require(pthread_create(&thread, &attributes, work, &task) == 0, "no thread");
  pthread_join(thread, nullptr);
  const auto* const bytes = static_cast<const unsigned char*>(stack);
  std::size_t untouched = 0;
  while (untouched < kStackBytes && bytes[untouched] == kMark) ++untouched;
  return task.begin - (reinterpret_cast<std::uintptr_t>(stack) + untouched);
}

constexpr Work kWork[] = {{"first_of_process", call_first_of_process},
                          {"first_of_thread", call_first_of_thread},
                          {"many", call_often},
                          {"new_places", call_from_new_places}};

}  // namespace
}  // namespace gpumemtrace::victims

int main() {
  using namespace gpumemtrace::victims;
  call(function<abi::cuInit_t>("cuInit")(0), "cuInit");
  for (const Work& work : kWork) std::printf("%s %zu\n", work.name, stack_of(work.run));
  return 0;
}
