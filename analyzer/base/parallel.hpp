// SPDX-License-Identifier: Apache-2.0
// Work that is divided among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace gpumemtrace::analyzer {

// The processors that this process may use: those that it is bound to, and no more than its control
// group (version 2) has time for. At least 1.
[[nodiscard]] std::size_t usable_processors();

// Calls work(0) to work(count - 1), each once, on the calling thread and on as many others as there
// are processors for.
//
// - Returns when all calls have ended; what they did is then known to the calling thread.
// - If calls throw, throws the exception of the smallest index. Calls with larger indexes may then
//   be left out.
// - A call of this function from `work` divides nothing.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

// While one lives, in_parallel() divides nothing on its thread: for work beside a running job,
// whose processors it should leave alone.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  bool was_at_work_;
};

}  // namespace gpumemtrace::analyzer
