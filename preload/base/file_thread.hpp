// SPDX-License-Identifier: Apache-2.0
// The thread that makes every access of the recorder to a file, and packs what it writes. Where the
// system allows, it has a table of descriptors of its own: the program can neither close a number
// of ours nor open a file of its own under one (decision 13 in docs/internals/decisions).
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
// - If there is no such thread, run() works on the caller's.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpumemtrace::preload::file_thread {

using Work = void (*)(void* argument) noexcept;

// Life of the thread: prepare(), then a thread that runs main(), then wait_until_ready(). False if
// the thread does not start; it never starts later. A forked child has none until it calls
// prepare().
void prepare() noexcept;
void* main(void*) noexcept;
[[nodiscard]] bool wait_until_ready() noexcept;
// The thread ends once it has nothing to do; its files are closed then.
void stop() noexcept;

// False if system or sandbox refuse: then the thread shares the process's descriptors.
[[nodiscard]] bool has_own_descriptors() noexcept;

// Processor time of the thread so far; 0 if there is no such thread. Any thread.
[[nodiscard]] std::uint64_t processor_ns() noexcept;

// Runs `work` on the file thread and waits until it is done, without an end if the file system
// stands still. On the file thread itself it just calls `work`.
void run(Work work, void* argument) noexcept;
// The same, and returns the work's result.
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

// Sets the work that request() asks for. Called on the file thread, before anyone requests.
void serve(Work work, void* argument) noexcept;
void request() noexcept;
// Work that takes longer calls this in between.
void serve_request() noexcept;

}  // namespace gpumemtrace::preload::file_thread
