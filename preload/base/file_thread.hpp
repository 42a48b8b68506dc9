// SPDX-License-Identifier: Apache-2.0
// The thread that makes every access of the recorder to a file, and packs what it writes. Where the
// system allows, this thread has a table of descriptors of its own: the program can neither close
// our descriptors nor open a file under their numbers (decision 13 in docs/internals/decisions).
//
//   the background thread              file thread            any thread that records
//     run() -------- work -------->  carries it out
//     waits for it <-- done -------
//                                    serve()'s work  <--------- request(), does not wait
//
// - run() has one client, the background thread. No signal handler can jump out of that thread and
//   nobody cancels it, so `argument` may lie on its stack.
// - The file thread waits for nobody: it takes no lock, allocates nothing, and calls neither the
//   driver, NVML, CUPTI nor the loader, whose descriptors are in the table of the process.
// - If there is no file thread, run() does the work on the calling thread.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpumemtrace::preload::file_thread {

using Work = void (*)(void* argument) noexcept;

// Life of the file thread: prepare(), then a thread that runs main(), then wait_until_ready(),
// which returns false if the thread does not start; it then never starts. A forked child has no
// file thread until it calls prepare().
void prepare() noexcept;
void* main(void*) noexcept;
[[nodiscard]] bool wait_until_ready() noexcept;
// Makes the file thread end once it has nothing to do; its files are closed then.
void stop() noexcept;

// False if system or sandbox refuse a table of descriptors to the file thread: then it shares that
// of the process.
[[nodiscard]] bool has_own_descriptors() noexcept;

// CPU time of the file thread so far; 0 if there is no file thread. Any thread may ask.
[[nodiscard]] std::uint64_t processor_ns() noexcept;

// Runs `work` on the file thread and waits until it is done, for ever if the file system does not
// answer. On the file thread itself it just calls `work`.
void run(Work work, void* argument) noexcept;
// Runs a callable on the file thread, waits until it is done, and returns its result.
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

// Sets the work that request() asks for. Called on the file thread, before the first request().
void serve(Work work, void* argument) noexcept;
void request() noexcept;
// Does the requested work, if any. Work of run() that takes longer calls this in between.
void serve_request() noexcept;

}  // namespace gpumemtrace::preload::file_thread
