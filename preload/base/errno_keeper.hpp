// SPDX-License-Identifier: Apache-2.0
// Keeps the program's errno over what is done on its threads.
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
