// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/writer_pool.hpp"

#include <sys/mman.h>

namespace gpumemtrace::preload {
namespace {

template <class Value>
Value* map_array(std::size_t count) noexcept {
  void* memory = mmap(nullptr, count * sizeof(Value), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Value*>(memory);
}

}  // namespace

constinit WriterPool* writer_pool = nullptr;

bool WriterPool::map_writers() noexcept {
  writers = map_array<Writer>(kMaxWriters);
  links = map_array<std::atomic<std::uint32_t>>(kMaxWriters);
  if (writers == nullptr || links == nullptr) return false;
  count.store(1);
  return true;
}

}  // namespace gpumemtrace::preload
