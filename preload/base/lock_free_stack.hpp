// SPDX-License-Identifier: Apache-2.0
// Stacks of small indexes without locks, for indexes below a fixed limit. The links live in an
// array that the owner provides; the index 0 is valid.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumemtrace::preload {

inline constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};

// Any thread pushes and pops. The head carries a tag that changes with every push, so a pop that
// was overtaken by pop, pop, push of the same index fails its exchange instead of corrupting the
// list:   head = tag << 32 | index + 1   (0 = empty)
class IndexStack {
 public:
  void push(std::uint32_t index, std::atomic<std::uint32_t>* links) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);  // the exchange checks it
    std::uint64_t desired;
    do {
      // mutant: link_after_push
      links[index].store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      desired = (((head >> 32) + 1) << 32) | (index + 1u);  // mutant: no_tag
      // Release: pairs with the acquire of pop(), which then sees the link and the entry's content.
      // mutant: push_without_release
    } while (!head_.compare_exchange_weak(head, desired, std::memory_order_release,
                                          std::memory_order_relaxed));
    count_.fetch_add(1, std::memory_order_relaxed);  // an estimate; nothing is ordered by it
  }

  // Removes and returns the index pushed last; kNoIndex if the stack is empty.
  std::uint32_t pop(const std::atomic<std::uint32_t>* links) noexcept {
    std::uint64_t head = head_.load(std::memory_order_acquire);  // pairs with push()
    while (static_cast<std::uint32_t>(head) != 0) {
      const std::uint32_t index = static_cast<std::uint32_t>(head) - 1;
      const std::uint64_t next = links[index].load(std::memory_order_relaxed);
      // Acquire: pairs with push().
      // mutant: pop_without_acquire
      if (head_.compare_exchange_weak(head, (head & ~0xffff'ffffull) | next,
                                      std::memory_order_acquire, std::memory_order_acquire)) {
        count_.fetch_sub(1, std::memory_order_relaxed);
        return index;
      }
    }
    return kNoIndex;
  }

  // The number of indexes in the stack; approximate while other threads push or pop.
  std::int32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> head_ = 0;
  std::atomic<std::int32_t> count_ = 0;
};

// A list of indexes: any thread pushes one; one thread takes all of them at once.
class IndexInbox {
 public:
  void push(std::uint32_t index, std::atomic<std::uint32_t>* links) noexcept {
    std::uint32_t head = head_.load(std::memory_order_relaxed);
    do {
      links[index].store(head, std::memory_order_relaxed);
      // Release: pairs with the acquire of take_all().
      // mutant: sealed_without_release
    } while (!head_.compare_exchange_weak(head, index + 1, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  [[nodiscard]] bool has_any() const noexcept { return head_.load() != 0; }

  // Takes all indexes and returns the newest, or kNoIndex; next() leads to the older ones.
  std::uint32_t take_all() noexcept {
    // mutant: sealed_without_acquire
    return head_.exchange(0, std::memory_order_acquire) - 1;  // pairs with push()
  }
  static std::uint32_t next(std::uint32_t index, const std::atomic<std::uint32_t>* links) noexcept {
    return links[index].load(std::memory_order_relaxed) - 1;  // ordered by take_all()
  }

 private:
  std::atomic<std::uint32_t> head_ = 0;
};

}  // namespace gpumemtrace::preload
