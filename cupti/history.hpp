// SPDX-License-Identifier: Apache-2.0
// The times at which a kind was switched on and off, by CUPTI's clock: a record belongs to a client
// if the client had its kind on at the record's time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::cupti {

struct Switch {
  std::uint64_t time = 0;
  std::uint32_t context = 0;  // CUPTI's number, or kEverywhere
  bool on = false;
};
inline constexpr std::uint32_t kEverywhere = ~std::uint32_t{0};

// The last kCapacity switches; before the oldest of them the state is that of the switch before it.
// Not for several threads at once.
template <std::size_t kCapacity>
class History {
 public:
  void add(const Switch& change) noexcept {
    if (count_ == kCapacity) {
      if (changes_[0].context == kEverywhere) before_ = changes_[0].on;
      for (std::size_t i = 1; i < kCapacity; ++i) changes_[i - 1] = changes_[i];
      --count_;
    }
    changes_[count_++] = change;
  }

  // The switch that was in force at `time` for the context; one of time 0 if there was none.
  Switch at(std::uint64_t time, std::uint32_t context) const noexcept {
    for (std::size_t i = count_; i > 0; --i) {
      const Switch& change = changes_[i - 1];
      if (change.time <= time && applies(change, context)) return change;
    }
    return {0, kEverywhere, before_};
  }

  // True if the answer is the same for every time up to `time`.
  [[nodiscard]] bool was_constant(std::uint64_t time, std::uint32_t context) const noexcept {
    const bool now = at(time, context).on;
    if (before_ != now) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      const Switch& change = changes_[i];
      if (change.time <= time && applies(change, context) && change.on != now) return false;
    }
    return true;
  }

  // The clock was exchanged: the known past has no time any more. `on` is the present
  // state.
  void forget_times(bool on, bool known) noexcept {
    before_ = on;
    is_known_ = known;
    count_ = 0;
  }

  // True if it is on now, for some context at least.
  [[nodiscard]] bool is_on_anywhere() const noexcept {
    for (std::size_t i = count_; i > 0; --i) {
      if (changes_[i - 1].on) return true;
      if (changes_[i - 1].context == kEverywhere) return false;
    }
    return before_;
  }

  // True if it was ever switched.
  [[nodiscard]] bool is_known() const noexcept { return is_known_ || count_ != 0; }

 private:
  [[nodiscard]] static bool applies(const Switch& change, std::uint32_t context) noexcept {
    return change.context == kEverywhere || change.context == context;
  }

  Switch changes_[kCapacity];
  std::size_t count_ = 0;
  bool before_ = false;
  bool is_known_ = false;
};

}  // namespace gpumemtrace::cupti
