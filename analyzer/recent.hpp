// A list that grows at one end and forgets at the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpumemtrace::analyzer {

// - Elements have numbers, 1, 2, 3, ..., which they keep.
// - Memory grows with what is kept, up to kMost elements; then the oldest gives way.
// - References are valid until the next add().
template <class Value, std::size_t kMost>
class Recent {
  static_assert((kMost & (kMost - 1)) == 0, "the place of an element is found by a mask");

 public:
  // A new element, with the value that a forgotten one has left. Its number is last().
  Value& add() {
    if (next_ - first_ == values_.size()) make_room();
    return values_[next_++ & mask()];
  }
  // nullptr where it is forgotten, or still to come.
  [[nodiscard]] Value* find(std::uint64_t number) {
    return number - first_ < next_ - first_ ? &values_[number & mask()] : nullptr;
  }
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint64_t last() const { return next_ - 1; }
  // The next add() forgets the first.
  [[nodiscard]] bool is_full() const { return next_ - first_ == kMost; }

 private:
  [[nodiscard]] std::size_t mask() const { return values_.size() - 1; }

  void make_room() {
    if (values_.size() == kMost) {
      ++first_;
      return;
    }
    std::vector<Value> old(values_.empty() ? 1 : 2 * values_.size());
    std::swap(old, values_);
    for (std::uint64_t number = first_; number != next_; ++number) {
      values_[number & mask()] = std::move(old[number & (old.size() - 1)]);
    }
  }

  std::vector<Value> values_;  // as many as a power of two, each at its number modulo that
  std::uint64_t first_ = 1;
  std::uint64_t next_ = 1;
};

}  // namespace gpumemtrace::analyzer
