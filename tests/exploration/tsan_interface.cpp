// SPDX-License-Identifier: Apache-2.0
// Defines the functions that code compiled with -fsanitize=thread calls at its accesses to memory,
// and replaces libc's memcpy() and memset() for such code. The compilers give the names and types.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tests/exploration/explorer.hpp"
#include "tests/exploration/explorer_access.hpp"

namespace gpumemtrace::exploration {
namespace {

Order order_of(int memory_order) {
  Order order;
  order.acquires = memory_order == __ATOMIC_CONSUME || memory_order == __ATOMIC_ACQUIRE ||
                   memory_order == __ATOMIC_ACQ_REL || memory_order == __ATOMIC_SEQ_CST;
  order.releases = memory_order == __ATOMIC_RELEASE || memory_order == __ATOMIC_ACQ_REL ||
                   memory_order == __ATOMIC_SEQ_CST;
  order.newest = memory_order == __ATOMIC_SEQ_CST;
  return order;
}

template <class Value>
std::uint64_t widen(Value value) {
  return static_cast<std::make_unsigned_t<Value>>(value);
}

template <class Value>
Value atomic_load(const volatile Value* place, int memory_order) {
  const void* const where = const_cast<const Value*>(place);
  before_atomic(where, sizeof(Value), false);
  return static_cast<Value>(load(where, widen(*place), order_of(memory_order)));
}

template <class Value>
void atomic_store(volatile Value* place, Value value, int memory_order) {
  const void* const where = const_cast<Value*>(place);
  before_atomic(where, sizeof(Value), true);
  const Value old = *place;
  *place = value;
  stored(where, widen(old), widen(value), order_of(memory_order), false);
}

// An atomic read-modify-write; `change` computes the new value from the old one.
template <class Value, class Change>
Value atomic_modify(volatile Value* place, int memory_order, Change change) {
  const void* const where = const_cast<Value*>(place);
  before_atomic(where, sizeof(Value), true);
  const Value old = *place;
  const auto changed = static_cast<Value>(change(old));
  *place = changed;
  stored(where, widen(old), widen(changed), order_of(memory_order), true);
  return old;
}

template <class Value>
bool atomic_exchange_if(volatile Value* place, Value* expected, Value desired, int memory_order,
                        int failure_order) {
  const void* const where = const_cast<Value*>(place);
  before_atomic(where, sizeof(Value), true);
  const Value old = *place;
  if (old == *expected) {
    *place = desired;
    stored(where, widen(old), widen(desired), order_of(memory_order), true);
    return true;
  }
  Order order = order_of(failure_order);
  order.newest = true;
  *expected = static_cast<Value>(load(where, widen(old), order));
  return false;
}

}  // namespace
}  // namespace gpumemtrace::exploration

namespace exploration = gpumemtrace::exploration;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
// Empty: the fence orders a thread with its own signal handlers, and scenarios have none.
void __tsan_atomic_signal_fence(int) {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

#define GPUMEMTRACE_PLAIN(bytes)                                                  \
  void __tsan_read##bytes(void* place) {                                          \
    exploration::before_plain(place, bytes, exploration::PlainAccess::kRead);     \
  }                                                                               \
  void __tsan_write##bytes(void* place) {                                         \
    exploration::before_plain(place, bytes, exploration::PlainAccess::kWrite);    \
  }                                                                               \
  void __tsan_unaligned_read##bytes(void* place) { __tsan_read##bytes(place); }   \
  void __tsan_unaligned_write##bytes(void* place) { __tsan_write##bytes(place); } \
  void __tsan_volatile_read##bytes(void* place) { __tsan_read##bytes(place); }    \
  void __tsan_volatile_write##bytes(void* place) { __tsan_write##bytes(place); }
GPUMEMTRACE_PLAIN(1)
GPUMEMTRACE_PLAIN(2)
GPUMEMTRACE_PLAIN(4)
GPUMEMTRACE_PLAIN(8)
GPUMEMTRACE_PLAIN(16)

void __tsan_read_range(void* place, std::size_t bytes) {
  exploration::before_plain(place, bytes, exploration::PlainAccess::kRead);
}
void __tsan_write_range(void* place, std::size_t bytes) {
  exploration::before_plain(place, bytes, exploration::PlainAccess::kWrite);
}

#define GPUMEMTRACE_ATOMIC(bits)                                                                   \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* place,        \
                                                 int order) {                                      \
    return exploration::atomic_load(place, order);                                                 \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* place, std::uint##bits##_t value, \
                                   int order) {                                                    \
    exploration::atomic_store(place, value, order);                                                \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* place,          \
                                                     std::uint##bits##_t value, int order) {       \
    return exploration::atomic_modify(place, order, [&](auto) { return value; });                  \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile std::uint##bits##_t* place,         \
                                                      std::uint##bits##_t value, int order) {      \
    return exploration::atomic_modify(place, order, [&](auto old) { return old + value; });        \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile std::uint##bits##_t* place,         \
                                                      std::uint##bits##_t value, int order) {      \
    return exploration::atomic_modify(place, order, [&](auto old) { return old - value; });        \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_or(volatile std::uint##bits##_t* place,          \
                                                     std::uint##bits##_t value, int order) {       \
    return exploration::atomic_modify(place, order, [&](auto old) { return old | value; });        \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_strong(                                              \
      volatile std::uint##bits##_t* place, std::uint##bits##_t* expected,                          \
      std::uint##bits##_t desired, int order, int failure_order) {                                 \
    return exploration::atomic_exchange_if(place, expected, desired, order, failure_order);        \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_weak(                                                \
      volatile std::uint##bits##_t* place, std::uint##bits##_t* expected,                          \
      std::uint##bits##_t desired, int order, int failure_order) {                                 \
    return exploration::atomic_exchange_if(place, expected, desired, order, failure_order);        \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                  \
      volatile std::uint##bits##_t* place, std::uint##bits##_t expected,                           \
      std::uint##bits##_t desired, int order, int failure_order) {                                 \
    exploration::atomic_exchange_if(place, &expected, desired, order, failure_order);              \
    return expected;                                                                               \
  }
GPUMEMTRACE_ATOMIC(8)
GPUMEMTRACE_ATOMIC(32)
GPUMEMTRACE_ATOMIC(64)

// The linker redirects calls of memcpy() and memset() to the __wrap functions (--wrap).
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* to, int value, std::size_t bytes);

void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  exploration::before_plain(from, bytes, exploration::PlainAccess::kRead);
  exploration::before_plain(to, bytes, exploration::PlainAccess::kWrite);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  exploration::before_plain(to, bytes, exploration::PlainAccess::kWrite);
  return __real_memset(to, value, bytes);
}

// A thread that yields continues once other threads have stored something.
int __wrap_sched_yield() {
  exploration::wait_for_others();
  return 0;
}

}  // extern "C"
