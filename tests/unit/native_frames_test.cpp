// SPDX-License-Identifier: Apache-2.0
// The native unwinder, compared with glibc's backtrace of the same stack.

#include "preload/native/native_frames.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "preload/native/stack_memory.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::native::native_frames_test {
namespace {

struct Pair {
  std::vector<std::uint64_t> ours;
  std::vector<std::uint64_t> glibc;
  bool cut = false;
};
Pair taken;

std::uint32_t one_serial(const LoadedModule&) noexcept { return 1; }

void prepare_once() {
  static const bool prepared = prepare(one_serial);
  REQUIRE(prepared);
}

// Takes the stack by our unwinder and by glibc, both from the caller of this function on.
[[gnu::noinline]] void take() {
  const Caller caller = caller_of_this_function();
  std::uint64_t ours[kMaxFrames];
  const Walk walk = read_frames(caller, ours, kMaxFrames);
  void* theirs[512];
  const int count = backtrace(theirs, 512);
  taken.ours.assign(ours, ours + walk.count);
  taken.glibc.clear();
  for (int i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(theirs[i]);
    if (!taken.glibc.empty() || address == caller.return_address) taken.glibc.push_back(address);
  }
  taken.cut = walk.cut;
}

// glibc reports the address that a signal interrupted as it is, our unwinder as address + 1.
void check_agreement(std::size_t at_least) {
  CHECK(taken.ours.size() >= at_least);
  std::vector<std::uint64_t> ours = taken.ours;
  for (std::size_t i = 0; i < std::min(ours.size(), taken.glibc.size()); ++i) {
    if (ours[i] == taken.glibc[i] + 1) --ours[i];
  }
  CHECK(ours == taken.glibc);
}

// The call goes through a pointer that the compiler cannot follow: else it makes the recursion a
// loop.
int recurse(int depth);
int (*volatile recurse_again)(int) = recurse;
[[gnu::noinline]] int recurse(int depth) {
  if (depth == 0) {
    take();
    return 0;
  }
  return recurse_again(depth - 1) + 1;
}

// A frame of variable size, so that its address is found by rbp.
[[gnu::noinline]] std::size_t variable_frame(std::size_t bytes) {
  auto* room = static_cast<char*>(__builtin_alloca(bytes));
  std::memset(room, 1, bytes);
  recurse(3);
  return static_cast<std::size_t>(room[bytes - 1]);
}

// The compiler realigns the stack; some compilers describe that frame by an expression.
[[gnu::noinline]] int realigned_frame(int depth) {
  alignas(128) volatile char room[256];
  room[depth] = 1;
  recurse(depth);
  return room[depth];
}

int compare_and_take(const void* left, const void* right) {
  take();
  return *static_cast<const int*>(left) - *static_cast<const int*>(right);
}

void take_in_handler(int) { take(); }

void handle(int signal, int flags) {
  struct sigaction action = {};
  action.sa_handler = take_in_handler;
  action.sa_flags = flags;
  REQUIRE(sigaction(signal, &action, nullptr) == 0);
}

// ThreadSanitizer calls signal handlers from frames of its own.
bool runs_handlers_in_own_frames() {
#if defined(__SANITIZE_THREAD__)
  WARN("not run: the thread sanitizer calls signal handlers from frames of its own");
  return true;
#else
  return false;
#endif
}

}  // namespace

TEST_CASE("native frames are those of glibc's backtrace", "[unit]") {
  prepare_once();
  recurse(20);
  check_agreement(22);
  // The second walk uses the cached rules.
  recurse(20);
  check_agreement(22);
}

TEST_CASE("native frames go through frames of variable size and realigned ones", "[unit]") {
  prepare_once();
  for (const std::size_t bytes : {1u, 100u, 5000u}) {
    variable_frame(bytes);
    check_agreement(6);
  }
  realigned_frame(5);
  check_agreement(8);
}

TEST_CASE("native frames go through callbacks of libc", "[unit]") {
  prepare_once();
  int values[] = {3, 1, 2};
  qsort(values, 3, sizeof values[0], compare_and_take);
  check_agreement(5);
}

TEST_CASE("native frames go through signal frames", "[unit]") {
  if (runs_handlers_in_own_frames()) return;
  prepare_once();
  handle(SIGUSR1, 0);
  raise(SIGUSR1);
  check_agreement(5);
}

TEST_CASE("native frames go from an alternate signal stack to the thread's", "[unit]") {
  if (runs_handlers_in_own_frames()) return;
  prepare_once();
  std::vector<char> room(1 << 16);
  const stack_t stack{room.data(), 0, room.size()};
  REQUIRE(sigaltstack(&stack, nullptr) == 0);
  handle(SIGUSR2, SA_ONSTACK);
  raise(SIGUSR2);
  check_agreement(5);
  const stack_t none{nullptr, SS_DISABLE, 0};
  sigaltstack(&none, nullptr);
}

TEST_CASE("native frames of a thread end at its start", "[unit]") {
  prepare_once();
  for (int round = 0; round < 3; ++round) {
    std::thread([] {
      recurse(10);
      check_agreement(12);
    }).join();
  }
}

TEST_CASE("a native stack deeper than the limit is cut at its outer end", "[unit]") {
  prepare_once();
  recurse(static_cast<int>(kMaxFrames) + 100);
  CHECK(taken.ours.size() == kMaxFrames);
  CHECK(taken.cut);
  taken.glibc.resize(kMaxFrames);
  check_agreement(kMaxFrames);
}

TEST_CASE("frames of throwing code are followed while an exception unwinds", "[unit]") {
  prepare_once();
  struct TakesInDestructor {
    ~TakesInDestructor() { take(); }
  };
  try {
    const TakesInDestructor taker;
    throw 1;
  } catch (int) {
    check_agreement(3);
  }
}

// Code without unwind tables: a stub in anonymous memory that calls a function.
TEST_CASE("native frames go through JIT code with a frame pointer", "[unit]") {
  prepare_once();
  // Machine code: push rbp; mov rbp, rsp; call rdi; pop rbp; ret
  const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  std::memcpy(memory, code, sizeof code);
  REQUIRE(mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0);
  auto* const stub = reinterpret_cast<void (*)(void (*)())>(memory);
  for (int round = 0; round < 2; ++round) {
    stub(take);
    const auto in_stub = reinterpret_cast<std::uintptr_t>(memory) + 6;
    REQUIRE(taken.ours.size() > 3);
    CHECK(taken.ours[0] == in_stub);
    Dl_info info;
    REQUIRE(dladdr(reinterpret_cast<void*>(taken.ours[1]), &info) != 0);
  }
  munmap(memory, 4096);
}

TEST_CASE("JIT code without a frame pointer ends or skips, and never crashes", "[unit]") {
  prepare_once();
  // Machine code: push rbp; mov rbp, GARBAGE; call rdi; pop rbp; ret
  for (const std::uint64_t garbage : {std::uint64_t{0}, std::uint64_t{8}, ~std::uint64_t{7},
                                      std::uint64_t{0x1234'5678'9abc'def0}}) {
    unsigned char code[] = {0x55, 0x48, 0xbd, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
    std::memcpy(code + 3, &garbage, sizeof garbage);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    std::memcpy(memory, code, sizeof code);
    REQUIRE(mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0);
    reinterpret_cast<void (*)(void (*)())>(memory)(take);
    REQUIRE(!taken.ours.empty());
    CHECK(taken.ours[0] == reinterpret_cast<std::uintptr_t>(memory) + 13);
    CHECK(taken.ours.size() == 1);
    munmap(memory, 4096);
  }
}

TEST_CASE("memory that is not there is not read", "[unit]") {
  void* memory =
      mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  REQUIRE(mprotect(reinterpret_cast<void*>(begin + 4096), 4096, PROT_NONE) == 0);
  errno = 7;
  CHECK(is_readable(begin, 4096));
  CHECK_FALSE(is_readable(begin, 4097));
  CHECK_FALSE(is_readable(begin + 4096, 1));
  CHECK_FALSE(is_readable(~std::uint64_t{0} - 8192, 8));
  StackMemory elsewhere(begin + 64);
  CHECK(elsewhere.reaches(begin + 4096));
  CHECK_FALSE(elsewhere.reaches(begin + 4104));
  std::uint64_t word = 0;
  CHECK(elsewhere.read(begin, word));
  CHECK_FALSE(elsewhere.read(begin + 4092, word));
  CHECK(errno == 7);
  munmap(memory, 3 * 4096);
}

}  // namespace gpumemtrace::preload::native::native_frames_test
