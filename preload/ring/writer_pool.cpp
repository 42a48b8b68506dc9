// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/writer_pool.hpp"

#include "preload/base/map_zeros.hpp"

namespace gpumemtrace::preload {

constinit WriterPool* writer_pool = nullptr;

bool WriterPool::map_writers() noexcept {
  writers = static_cast<Writer*>(map_zeros(sizeof(Writer) * kMaxWriters));
  links = static_cast<std::atomic<std::uint32_t>*>(
      map_zeros(sizeof(std::atomic<std::uint32_t>) * kMaxWriters));
  if (writers == nullptr || links == nullptr) return false;
  count.store(1);
  return true;
}

}  // namespace gpumemtrace::preload
