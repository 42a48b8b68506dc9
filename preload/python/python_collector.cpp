// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_collector.hpp"

#include "preload/base/checked_memory.hpp"
#include "preload/python/python_layout.hpp"

namespace gpumemtrace::preload::python {
namespace {

// Measured as the layouts are (preload/python/python_layout.hpp).
struct Known {
  unsigned minor;
  Collector collector;
};
constexpr Known kKnown[] = {{9, {816, 352}}, {10, {816, 352}}, {11, {848, 360}}, {12, {312, 384}}};
constexpr unsigned kFirstWithTable = 13;
constexpr unsigned kLastWithThreeGenerations = 13;

// Up to 3.13 the state of the collector has, before the flag: three generations, then a pointer to
// the first of them. In 3.13.5 they begin four bytes earlier than in 3.13.0.
constexpr std::size_t kFirstGenerationBefore[] = {176, 180};
constexpr std::size_t kPointerToItBefore = 104;

// Words of the interpreter's own table of offsets (_Py_DebugOffsets): the offsets of an
// interpreter's collector state, of the pointer to its lock, of its own lock and of the lock's last
// holder; then, at the other end of the table, the bytes of an ASCII str's header, the size of the
// collector's state, and the offset of the flag in it.
struct TableWords {
  unsigned minor;
  std::size_t collector;
  std::size_t lock_pointer;
  std::size_t lock;
  std::size_t last_holder;
  std::size_t ascii_header;
};
constexpr TableWords kTableWords[] = {{13, 10, 14, 15, 18, 70}, {14, 11, 15, 16, 19, 80}};
constexpr std::size_t kTableBytes = 83 * sizeof(std::uint64_t);

Collector read_table(unsigned minor, const void* runtime) noexcept {
  std::uint64_t table[kTableBytes / sizeof(std::uint64_t)];
  for (const TableWords& words : kTableWords) {
    if (words.minor != minor || !read_through_kernel(runtime, table, sizeof table)) continue;
    constexpr std::uint64_t kAsciiHeaderBytes = 40;
    const std::uint64_t state_bytes = table[words.ascii_header + 1];
    const std::uint64_t flag = table[words.ascii_header + 2];
    if (table[words.ascii_header] != kAsciiHeaderBytes || flag >= state_bytes ||
        table[words.last_holder] - table[words.lock] != kLastHolderOffset) {
      return {};
    }
    return {table[words.collector] + flag, table[words.lock_pointer]};
  }
  return {};
}

Collector collector_of(unsigned minor, const void* runtime) noexcept {
  if (minor >= kFirstWithTable) return read_table(minor, runtime);
  for (const Known& known : kKnown) {
    if (known.minor == minor) return known.collector;
  }
  return {};
}

bool has_generations(const char* flag) noexcept {
  const char* first = nullptr;
  if (!read_through_kernel(flag - kPointerToItBefore, first)) return false;
  for (const std::size_t before : kFirstGenerationBefore) {
    if (first == flag - before) return true;
  }
  return false;
}

bool is_held_by_a_thread_of(const void* interpreter, const char* lock) noexcept {
  const char* holder = nullptr;
  const void* its_interpreter = nullptr;
  return read_through_kernel(lock + kLastHolderOffset, holder) && plausible_pointer(holder) &&
         read_through_kernel(holder + kInterpreterOffset, its_interpreter) &&
         its_interpreter == interpreter;
}

}  // namespace

Collector find_collector(unsigned minor, const void* runtime, const void* interpreter) noexcept {
  if (runtime == nullptr || interpreter == nullptr) return {};
  const Collector found = collector_of(minor, runtime);
  if (found.collecting == 0) return {};
  const char* const flag = static_cast<const char*>(interpreter) + found.collecting;
  std::uint32_t collecting = 0;
  if (!read_through_kernel(flag, collecting) || collecting > 1) return {};
  if (minor <= kLastWithThreeGenerations && !has_generations(flag)) return {};
  const char* lock = static_cast<const char*>(runtime) + found.lock;
  if (minor >= kFirstWithOwnLock &&
      !read_through_kernel(static_cast<const char*>(interpreter) + found.lock, lock)) {
    return {};
  }
  return is_held_by_a_thread_of(interpreter, lock) ? found : Collector{};
}

}  // namespace gpumemtrace::preload::python
