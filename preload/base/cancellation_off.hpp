// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace gpumemtrace::preload {

// The calling thread is not cancelled while this lives. A thread that may be cancelled at any
// instruction is cancelled at the end of this instead.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gpumemtrace::preload
