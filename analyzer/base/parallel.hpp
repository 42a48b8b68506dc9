// SPDX-License-Identifier: Apache-2.0
// Divides work among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace gpumemtrace::analyzer {

// The number of processors that this process may use: its CPU affinity, limited by the quota of its
// control group (version 2). At least 1.
[[nodiscard]] std::size_t usable_processors();

// Calls work(0) to work(count - 1), each once, on the calling thread and on as many others as there
// are processors for.
//
// - Returns when all calls have ended; the calling thread then sees all that they wrote.
// - If calls throw, throws the exception of the smallest index. Calls with larger indexes may then
//   not be made.
// - If `work` itself calls this function, that call runs on its thread alone.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

// While an object of this type lives, in_parallel() on its thread uses no other threads: for work
// beside a running job, which needs the processors.
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
