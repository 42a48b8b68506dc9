// SPDX-License-Identifier: Apache-2.0
// A growing array in memory mapped for it alone: the recorder never uses the program's malloc, so
// code that recorder and analyzer share must not use it either.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <type_traits>

namespace gpumemtrace::ledger {

// - New elements are zero-initialized. Elements move when the array grows: keep no pointers to
//   them.
// - If the system has no memory, resize() and push() return false and change nothing.
template <class Value>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) < 4096);

 public:
  MappedArray() noexcept = default;
  ~MappedArray() { release(); }
  MappedArray(MappedArray&& other) noexcept { swap(other); }
  MappedArray& operator=(MappedArray&& other) noexcept {
    swap(other);
    return *this;
  }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  [[nodiscard]] bool resize(std::size_t size) noexcept {
    if (size > capacity_ && !reserve(size)) return false;
    // The bytes past the old size may still be those of elements that were there before.
    for (std::size_t i = size_; i < size; ++i) values_[i] = Value{};
    size_ = size;
    return true;
  }
  [[nodiscard]] bool push(const Value& value) noexcept {
    if (size_ == capacity_ && !reserve(size_ + 1)) return false;
    values_[size_++] = value;
    return true;
  }
  void release() noexcept {
    if (values_ != nullptr) munmap(values_, mapped_bytes());
    values_ = nullptr;
    size_ = capacity_ = 0;
  }
  void swap(MappedArray& other) noexcept {
    Value* const values = values_;
    const std::size_t size = size_;
    const std::size_t capacity = capacity_;
    values_ = other.values_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    other.values_ = values;
    other.size_ = size;
    other.capacity_ = capacity;
  }

  std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  Value* data() noexcept { return values_; }
  const Value* data() const noexcept { return values_; }
  Value& operator[](std::size_t index) noexcept { return values_[index]; }
  const Value& operator[](std::size_t index) const noexcept { return values_[index]; }
  Value& back() noexcept { return values_[size_ - 1]; }
  Value* begin() noexcept { return values_; }
  Value* end() noexcept { return values_ + size_; }
  const Value* begin() const noexcept { return values_; }
  const Value* end() const noexcept { return values_ + size_; }

  [[nodiscard]] bool insert(std::size_t index, const Value& value) noexcept {
    if (!push(value)) return false;
    for (std::size_t i = size_ - 1; i > index; --i) values_[i] = values_[i - 1];
    values_[index] = value;
    return true;
  }
  void erase(std::size_t first, std::size_t last) noexcept {
    for (std::size_t i = last; i < size_; ++i) values_[first + i - last] = values_[i];
    size_ -= last - first;
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;

  [[nodiscard]] bool reserve(std::size_t wanted) noexcept {
    const std::size_t doubled = capacity_ * 2 > wanted ? capacity_ * 2 : wanted;
    const std::size_t bytes = (doubled * sizeof(Value) + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* memory = values_ == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                      : mremap(values_, mapped_bytes(), bytes, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) return false;
    values_ = static_cast<Value*>(memory);
    capacity_ = bytes / sizeof(Value);
    return true;
  }
  // The size of the mapping that holds capacity_ elements, in whole pages; the rest of the last
  // page is too small for an element.
  std::size_t mapped_bytes() const noexcept {
    return (capacity_ * sizeof(Value) + kPageBytes - 1) / kPageBytes * kPageBytes;
  }

  Value* values_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace gpumemtrace::ledger
