// SPDX-License-Identifier: Apache-2.0
// Allocates through call stacks that the test knows: functions have unique names, and each
// allocation has a unique size, by which the test finds it. Usage: stacks CASE [ARGUMENT...]
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

using Callback = void (*)(std::size_t bytes);

// Keeps the function's stack frame, which the compiler's inlining, tail calls or clones would hide.
#if defined(__clang__)
#define GPUMEMTRACE_FRAME extern "C" [[gnu::noinline, gnu::used]]
#else
#define GPUMEMTRACE_FRAME extern "C" [[gnu::noinline, gnu::noclone, gnu::used]]
#endif
inline void stay_in_frame() { __asm__ volatile("" ::: "memory"); }
inline void use(void* memory) { __asm__ volatile("" ::"r"(memory) : "memory"); }

GPUMEMTRACE_FRAME void allocate_here(std::size_t bytes) {
  free_memory(allocate(bytes));
  stay_in_frame();
}

GPUMEMTRACE_FRAME void recurse(int depth, std::size_t bytes) {
  if (depth == 0) {
    allocate_here(bytes);
  } else {
    recurse(depth - 1, bytes);
  }
  stay_in_frame();
}

[[gnu::always_inline]] inline void inlined_into_caller(std::size_t bytes) {
  allocate_here(bytes);
  stay_in_frame();
}
GPUMEMTRACE_FRAME void calls_inlined(std::size_t bytes) {
  inlined_into_caller(bytes);
  stay_in_frame();
}

GPUMEMTRACE_FRAME void frame_of_variable_size(std::size_t bytes) {
  use(__builtin_alloca(bytes));
  allocate_here(bytes);
  stay_in_frame();
}

GPUMEMTRACE_FRAME void realigned_frame(std::size_t bytes) {
  alignas(256) char room[256];
  use(room);
  allocate_here(bytes);
  stay_in_frame();
}

// --- exceptions

struct AllocatesAtEnd {
  std::size_t bytes;
  ~AllocatesAtEnd() { allocate_here(bytes); }
};
GPUMEMTRACE_FRAME void throws(std::size_t bytes) {
  const AllocatesAtEnd at_end{bytes};
  throw std::runtime_error("thrown");
}
GPUMEMTRACE_FRAME void catches(std::size_t bytes) {
  try {
    throws(bytes);
  } catch (const std::runtime_error&) {
    allocate_here(bytes + 1);
  }
  stay_in_frame();
}

// --- hand-made code: assembly and machine code

extern "C" {
void frame_by_rbx(Callback callback, std::size_t bytes);         // the frame's address is in rbx
void frame_by_expression(Callback callback, std::size_t bytes);  // the frame's address is in memory
void frame_without_tables(Callback callback, std::size_t bytes);
}

// A stub made at run time: push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp;
// ret
void call_through_stub(Callback callback, std::size_t bytes) {
  const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                                0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no memory for code");
  std::memcpy(memory, code, sizeof code);
  require(mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0, "memory cannot be executed");
  reinterpret_cast<void (*)(Callback, std::size_t)>(memory)(callback, bytes);
}
GPUMEMTRACE_FRAME void calls_stub(std::size_t bytes) {
  call_through_stub(allocate_here, bytes);
  stay_in_frame();
}

// --- libraries that are loaded one after the other at the same address

GPUMEMTRACE_FRAME void call_library(const std::string& path, std::size_t bytes) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  require(library != nullptr, "the library cannot be opened");
  auto* const enter = reinterpret_cast<void (*)(Callback, std::size_t)>(dlsym(library, "enter"));
  require(enter != nullptr, "the library has no function `enter`");
  enter(allocate_here, bytes);
  require(dlclose(library) == 0, "the library cannot be closed");
}

void take_turns(const std::string& first, const std::string& second, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    call_library(first, 1'000'000 + static_cast<std::size_t>(round));
    call_library(second, 2'000'000 + static_cast<std::size_t>(round));
  }
}

// Several threads open, call and close the same libraries: each library is unloaded whenever no
// thread has it open.
void churn(abi::CUcontext context, const std::string& first, const std::string& second,
           int rounds) {
  std::vector<std::thread> threads;
  for (int index = 0; index < 8; ++index) {
    threads.emplace_back([&, index] {
      call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
      for (int round = 0; round < rounds; ++round) {
        const bool even = (index + round) % 2 == 0;
        call_library(even ? first : second, even ? 1'000'000 : 2'000'000);
        recurse(round % 50, 3'000'000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- signals that interrupt anything but the driver

volatile sig_atomic_t in_driver = 0;
volatile sig_atomic_t signals_arrived = 0;
volatile sig_atomic_t signals_seen = 0;
volatile sig_atomic_t signals_wanted = 0;

GPUMEMTRACE_FRAME void on_signal(int) {
  signals_arrived = signals_arrived + 1;
  if (in_driver != 0 || signals_seen >= signals_wanted) return;
  allocate_here(4096);
  signals_seen = signals_seen + 1;
}

GPUMEMTRACE_FRAME unsigned busy_leaf(unsigned value) {
  for (int i = 0; i < 7; ++i) value = value * 1664525u + 1013904223u;
  return value;
}
GPUMEMTRACE_FRAME unsigned busy_tree(unsigned value, int depth) {
  if (depth == 0) return busy_leaf(value);
  const unsigned left = busy_tree(value ^ 1u, depth - 1);
  const unsigned right = busy_tree(value ^ left, depth - 1);
  char text[32];
  std::snprintf(text, sizeof text, "%u", right);  // frames of libc, called through the PLT
  return left + static_cast<unsigned>(text[0]);
}

GPUMEMTRACE_FRAME void storm_of_signals(int count) {
  std::vector<char> room(1 << 18);
  const stack_t stack{room.data(), 0, room.size()};
  require(sigaltstack(&stack, nullptr) == 0, "no alternate signal stack");
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  require(sigaction(SIGPROF, &action, nullptr) == 0, "no signal handler");
  signals_wanted = count;
  const pthread_t target = pthread_self();
  std::thread sender([target] {
    unsigned random = 1;
    while (signals_seen < signals_wanted) {
      const sig_atomic_t before = signals_arrived;
      pthread_kill(target, SIGPROF);
      while (signals_arrived == before && signals_seen < signals_wanted) sched_yield();
      random = random * 1664525u + 1013904223u;
      for (unsigned turns = random >> 16; turns > 0; --turns) stay_in_frame();
    }
  });
  unsigned value = 1;
  sig_atomic_t arrived_before = 0;
  while (signals_seen < signals_wanted) {
    value = busy_tree(value, 6);
    // Allocates only after a new signal: the trace must not grow while the sender does not run.
    if (signals_arrived == arrived_before) continue;
    arrived_before = signals_arrived;
    in_driver = 1;
    allocate_here(8192 + value % 2);
    in_driver = 0;
  }
  sender.join();
}

// --- more different stacks than any program has

extern "C" void descend(unsigned path, int depth);
void (*volatile descend_left)(unsigned, int) = descend;
void (*volatile descend_right)(unsigned, int) = descend;

GPUMEMTRACE_FRAME void descend(unsigned path, int depth) {
  if (depth == 0) {
    allocate_here(4096);
  } else if ((path & 1u) != 0) {
    descend_left(path >> 1, depth - 1);
    __asm__ volatile("# left" ::: "memory");  // else the compiler merges the two calls
  } else {
    descend_right(path >> 1, depth - 1);
    __asm__ volatile("# right" ::: "memory");
  }
  stay_in_frame();
}

void walk_all_paths(unsigned count, int rounds) {
  constexpr int kDepth = 24;
  for (int round = 0; round < rounds; ++round) {
    for (unsigned path = 0; path < count; ++path) descend(path, kDepth);
  }
  // Prints the peak resident size of this program alone: getrusage() would include the process that
  // forked it.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) std::puts(line.c_str());
  }
}

// --- threads

GPUMEMTRACE_FRAME void thread_body(abi::CUcontext context, std::size_t index) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  for (int round = 0; round < 100; ++round) recurse(static_cast<int>(index), 100'000 + index);
}

void run_threads(abi::CUcontext context) {
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < 8; ++index) {
    threads.emplace_back(thread_body, context, index);
  }
  for (std::thread& thread : threads) thread.join();
}

// Calls on a stack that belongs to no thread: static memory, reached by a jump of the stack
// pointer.
extern "C" void call_on_stack(Callback callback, std::size_t bytes, void* top);
void call_on_other_stack(std::size_t bytes) {
  alignas(64) static char room[1 << 16];
  call_on_stack(allocate_here, bytes, room + sizeof room);
}

void run(const std::vector<std::string>& arguments) {
  abi::CUcontext const context = start_driver();
  const std::string& what = arguments.at(0);
  if (what == "plain") {
    recurse(3, 1001);
    calls_inlined(1002);
    frame_of_variable_size(1003);
    realigned_frame(1004);
    catches(1005);
    frame_by_rbx(allocate_here, 1007);
    frame_by_expression(allocate_here, 1008);
    frame_without_tables(allocate_here, 1009);
    calls_stub(1010);
    call_on_other_stack(1011);
    recurse(3, 1012);
  } else if (what == "deep") {
    recurse(std::stoi(arguments.at(1)), 2001);
  } else if (what == "turns") {
    take_turns(arguments.at(1), arguments.at(2), std::stoi(arguments.at(3)));
  } else if (what == "churn") {
    churn(context, arguments.at(1), arguments.at(2), std::stoi(arguments.at(3)));
  } else if (what == "signals") {
    storm_of_signals(std::stoi(arguments.at(1)));
  } else if (what == "paths") {
    walk_all_paths(static_cast<unsigned>(std::stoul(arguments.at(1))),
                   arguments.size() > 2 ? std::stoi(arguments[2]) : 1);
  } else if (what == "threads") {
    run_threads(context);
  } else {
    give_up("there is no such case");
  }
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::run({arguments + 1, arguments + count});
  return 0;
}
