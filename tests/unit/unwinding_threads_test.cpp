// SPDX-License-Identifier: Apache-2.0
// The unwinder, its rules and the table of stacks under many threads while libraries come and go.
// This test also runs in the build with ThreadSanitizer, which instruments the unwinder.

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "preload/base/key_table.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/native/native_frames.hpp"
#include "preload/native/unwind_cache.hpp"
#include "tests/catch.hpp"
#include "tests/support/compiled_library.hpp"

namespace gpumemtrace::preload::native::unwinding_threads_test {
namespace {

constexpr int kThreads = 16;
constexpr int kDepths = 8;
constexpr int kRounds = 2000;

KeyTable serials;
KeyTable stacks;

// Numbers modules by file and address range, as the recorder does.
std::uint32_t serial_of(const LoadedModule& module) noexcept {
  std::uint64_t hash = mix(module.base, module.end);
  for (const char* letter = module.path; *letter != '\0'; ++letter) {
    hash = mix(hash, static_cast<unsigned char>(*letter));
  }
  bool emitted = false;
  return serials.intern(hash, emitted);
}

struct Taken {
  std::size_t frames = 0;
  std::uint64_t outermost = 0;
  std::uint32_t stack = 0;
  bool operator==(const Taken&) const = default;
};
thread_local Taken taken;
thread_local std::unique_ptr<UnwindCache> walk_memory;

[[gnu::noinline]] void take() {
  std::uint64_t frames[kMaxFrames];
  const Caller caller = caller_of_this_function();
  const Walk walk = read_frames(caller, frames, kMaxFrames);
  std::uint64_t hash = walk.hash;
  if (walk_memory != nullptr) {
    const RememberedWalk* const expected = read_expected(caller, kMaxFrames, *walk_memory);
    std::uint64_t again[kMaxFrames];
    hash = expected != nullptr ? expected->hash
                               : read_frames(caller, again, kMaxFrames, walk_memory.get()).hash;
  }
  bool emitted = false;
  taken = {walk.count, walk.count == 0 ? 0 : walk.addresses[walk.count - 1],
           stacks.intern(hash, emitted)};
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

// Counts the stacks that differ from the thread's first stack of the same depth.
int count_differences(const std::atomic<bool>& over) {
  walk_memory = std::make_unique<UnwindCache>();
  // The compiler must not know this number: else it makes two loops, whose calls of recurse() have
  // different return addresses.
  volatile int first_rounds = kDepths;
  std::array<Taken, kDepths> first;
  int differences = 0;
  for (int round = 0; round < kRounds || !over.load(); ++round) {
    const int depth = round % kDepths;
    recurse(depth);
    Taken& expected = first[static_cast<std::size_t>(depth)];
    if (round < first_rounds) expected = taken;
    if (!(taken == expected) || taken.stack == 0 || taken.outermost != first[0].outermost ||
        taken.frames != first[0].frames + static_cast<std::size_t>(depth)) {
      ++differences;
    }
  }
  return differences;
}

// Opens, calls and closes a library. Returns the number of frames that were walked, 0 if it failed.
std::size_t call_through(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) return 0;
  auto* const enter = reinterpret_cast<void (*)(void (*)())>(dlsym(library, "enter"));
  enter(take);
  const std::size_t frames = taken.frames;
  unload_begins();  // the recorder's dlclose() also calls it, and unload_ends()
  dlclose(library);
  unload_ends();
  return frames;
}

std::string source_with_frame_of(int bytes) {
  return "static void use(void* memory) { __asm__ volatile(\"\" ::\"r\"(memory) : \"memory\"); }\n"
         "extern \"C\" void enter(void (*callback)()) {\n  char room[" +
         std::to_string(bytes) + "];\n  callback();\n  use(room);\n}\n";
}

}  // namespace

TEST_CASE("stacks of many threads stay the same while libraries come and go", "[unit]") {
  REQUIRE(prepare(serial_of));
  REQUIRE(serials.map(1 << 10));
  REQUIRE(stacks.map(1 << 16));
  const tests::CompiledLibrary one("libone.so", source_with_frame_of(48), "-O2");
  const tests::CompiledLibrary two("libtwo.so", source_with_frame_of(496), "-O2");
  const std::uint32_t unloads = unload_count();

  std::atomic<bool> over = false;
  std::vector<int> differences(kThreads, -1);
  std::vector<std::thread> threads;
  for (int& of_thread : differences) {
    threads.emplace_back([&over, &of_thread] { of_thread = count_differences(over); });
  }
  const std::size_t frames = call_through(one.path.string());
  std::size_t wrong = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string path = (round % 2 == 0 ? two : one).path.string();
    if (call_through(path) != frames) ++wrong;
  }
  over.store(true);
  for (std::thread& thread : threads) thread.join();

  CHECK(frames > 3);
  CHECK(wrong == 0);
  CHECK(differences == std::vector<int>(kThreads, 0));
  CHECK(unload_count() - unloads == 301);
}

TEST_CASE("threads that meet the same new keys agree on their numbers", "[unit]") {
  constexpr std::uint32_t kKeys = 20000;
  KeyTable table;
  REQUIRE(table.map(1 << 16));
  std::vector<std::vector<std::uint32_t>> numbers(kThreads, std::vector<std::uint32_t>(kKeys));
  std::vector<std::thread> threads;
  for (auto& of_thread : numbers) {
    threads.emplace_back([&] {
      for (std::uint32_t key = 0; key < kKeys; ++key) {
        bool emitted = false;
        of_thread[key] = table.intern(mix(7, key), emitted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : numbers) CHECK(of_thread == numbers[0]);
}

TEST_CASE("a key is to be emitted until it was, with the same number", "[unit]") {
  KeyTable table;
  REQUIRE(table.map(1 << 10));
  bool emitted = true;
  const std::uint32_t number = table.intern(12, emitted);
  CHECK_FALSE(emitted);
  CHECK(table.intern(16, emitted) != number);
  CHECK_FALSE(emitted);
  CHECK(table.intern(12, emitted) == number);
  CHECK_FALSE(emitted);
  table.mark_emitted(number);
  CHECK(table.intern(12, emitted) == number);
  CHECK(emitted);
}

}  // namespace gpumemtrace::preload::native::unwinding_threads_test
