// SPDX-License-Identifier: Apache-2.0
// The thread that makes every access of the recorder to a file, and packs what it writes. Where the
// system allows, it has a table of descriptors of its own: the program can neither close a number
// of ours nor open a file of its own under one (docs/decisions/0013-files-have-a-thread.md).
//
//   the background thread              file thread            any thread that records
//     run() -------- work -------->  carries it out
//     waits for it <-- done -------
//                                    serve()'s work  <--------- request(), does not wait
//
// - run() has one client, which no signal handler can make jump out and which nobody cancels: the
//   background thread. `argument` may lie on its stack.
// - The thread waits for nobody: it takes no lock, allocates nothing, and calls neither the driver,
//   NVML, CUPTI nor the loader, whose descriptors are numbers of the process.
// - Where there is no such thread, run() works on the caller's.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpumemtrace::preload::file_thread {

using Work = void (*)(void* argument) noexcept;

// The life of the thread: prepare(), then a thread that runs main(), then wait_until_ready(). False
// if it does not begin; it never does then. A forked child has none until it prepares.
void prepare() noexcept;
void* main(void*) noexcept;
[[nodiscard]] bool wait_until_ready() noexcept;
// It ends once it has nothing to do; its files are closed then.
void stop() noexcept;

// False if system or sandbox refuse: its numbers are the process's like any other thread's.
[[nodiscard]] bool has_own_descriptors() noexcept;

// Processor time that it took so far; 0 if there is no such thread. Any thread.
[[nodiscard]] std::uint64_t processor_ns() noexcept;

// Has it done and waits until it is, without an end where the file system stands still. On the
// thread itself: does it.
void run(Work work, void* argument) noexcept;
// The same, with what the work returns.
template <class Callable>
auto run(Callable&& work) noexcept {
  using Type = std::remove_reference_t<Callable>;
  using Result = std::invoke_result_t<Type&>;
  if constexpr (std::is_void_v<Result>) {
    run([](void* argument) noexcept { (*static_cast<Type*>(argument))(); }, &work);
  } else {
    Result result{};
    run([&]() noexcept { result = work(); });
    return result;
  }
}

// What request() asks for. Called on the thread itself, before anyone requests.
void serve(Work work, void* argument) noexcept;
void request() noexcept;
// Work that takes longer calls it in between.
void serve_request() noexcept;

}  // namespace gpumemtrace::preload::file_thread
