// SPDX-License-Identifier: Apache-2.0
// Tests the search that finds out whether a hook that marked its frame is still on the stack.

#include "preload/native/hook_search.hpp"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "preload/loader/loaded_module.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::native::hook_search_test {
namespace {

using Function = void (*)();

std::uint64_t hook_frame = 0;
HookState answer = HookState::kUnknown;
jmp_buf before_hook;

[[gnu::noinline]] void ask() { answer = state_of_hook(hook_frame); }

[[gnu::noinline]] void hook(Function inside) {
  hook_frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  inside();
  __asm__ volatile("");  // prevents a tail call
}

[[gnu::noinline]] void leave() { longjmp(before_hook, 1); }
void leave_a_hook() {
  if (setjmp(before_hook) == 0) hook(leave);
}

// Calls ask() from deeper in the stack than the frame that any call of hook() had.
[[gnu::noinline]] int ask_deeper(int levels) {
  volatile int room[64];
  room[levels % 64] = levels;
  if (levels == 0) {
    ask();
  } else {
    ask_deeper(levels - 1);
  }
  return room[levels % 64];
}

// Calls `function` deeper in the stack than the hooks that longjmp left.
[[gnu::noinline, maybe_unused]] int call_deeper(void (*function)(Function)) {
  volatile int room[1024];
  room[1] = 1;
  function([] { ask_deeper(2); });
  return room[1];
}

[[maybe_unused]] void ask_in_handler(int) { ask(); }
[[maybe_unused]] void raise_signal() { raise(SIGUSR1); }

}  // namespace

TEST_CASE("a hook is found from within what it calls", "[unit]") {
  choose_module_lookup();
  hook(ask);
  CHECK(answer == HookState::kUnderWay);
  hook([] { ask_deeper(1000); });
  CHECK(answer == HookState::kUnderWay);
}

TEST_CASE("a hook is found from a signal handler that interrupted it, on whatever stack",
          "[unit]") {
#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
  WARN("not run: signal handlers have frames of others here");
#else
  choose_module_lookup();
  std::vector<char> other_stack(1 << 16);
  stack_t stack = {};
  stack.ss_sp = other_stack.data();
  stack.ss_size = other_stack.size();
  REQUIRE(sigaltstack(&stack, nullptr) == 0);
  for (const int flags : {0, SA_ONSTACK}) {
    struct sigaction action = {};
    action.sa_handler = ask_in_handler;
    action.sa_flags = flags;
    REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
    answer = HookState::kUnknown;
    hook(raise_signal);
    CHECK(answer == HookState::kUnderWay);
  }
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
  signal(SIGUSR1, SIG_DFL);
#endif
}

TEST_CASE("a hook that was jumped out of is found to be left, from deeper in the stack", "[unit]") {
  choose_module_lookup();
  for (const int levels : {2, 3, 10, 1000}) {
    leave_a_hook();
    ask_deeper(levels);
    CHECK(answer == HookState::kLeft);
  }
}

TEST_CASE("code without unwind tables hides whether a hook was left", "[unit]") {
#if !defined(__x86_64__)
  WARN("not run: frame records need no tables");
#else
  choose_module_lookup();
  // Machine code: sub rsp, 8; call rdi; add rsp, 8; ret
  const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  std::memcpy(page, code, sizeof code);
  leave_a_hook();
  call_deeper(reinterpret_cast<void (*)(Function)>(page));
  CHECK(answer == HookState::kUnknown);
  munmap(page, 4096);
#endif
}

}  // namespace gpumemtrace::preload::native::hook_search_test
