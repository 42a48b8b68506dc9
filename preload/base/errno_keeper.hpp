// SPDX-License-Identifier: Apache-2.0
// Keeps the program's errno while the recorder works on the program's threads.
#pragma once

#include <errno.h>

namespace gpumemtrace::preload {

class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

}  // namespace gpumemtrace::preload
