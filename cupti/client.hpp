// SPDX-License-Identifier: Apache-2.0
// The program's own use of one libcupti, as far as CUPTI does not know it while our callbacks are
// registered in place of the program's: the program's callbacks, the times at which it switched
// kinds of records on and off, and the number of records that it did not get.
//
// Any thread. The lock inside is held for a few instructions and never around a call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/functions.hpp"
#include "cupti/records.hpp"
#include "cupti/spin_lock.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

struct Switch {
  std::uint64_t time = 0;
  std::uint32_t context = 0;  // CUPTI's number of the context, or kEverywhere
  bool on = false;
};
inline constexpr std::uint32_t kEverywhere = ~std::uint32_t{0};

// The times at which a kind was switched on and off, by CUPTI's clock: a record belongs to a client
// if the client had its kind on at the record's time.
//
// Keeps kCapacity switches, and the state before the oldest of them. When there are more, forgets
// the oldest switch that a later one overrides: the last switch of each of kCapacity contexts is
// kept, however often they are switched. One thread at a time.
template <std::size_t kCapacity>
class History {
 public:
  void add(const Switch& change) noexcept {
    if (count_ == kCapacity) {
      const std::size_t forgotten = first_overridden(change);
      // A switch for all contexts overrides all earlier ones, which are forgotten before it: if it
      // is forgotten itself, it is the oldest of all.
      if (changes_[forgotten].context == kEverywhere) before_ = changes_[forgotten].on;
      for (std::size_t i = forgotten + 1; i < kCapacity; ++i) changes_[i - 1] = changes_[i];
      --count_;
    }
    changes_[count_++] = change;
  }

  // The switch that was in force at `time` for the context; a switch of time 0 if none was.
  Switch at(std::uint64_t time, std::uint32_t context) const noexcept {
    for (std::size_t i = count_; i > 0; --i) {
      const Switch& change = changes_[i - 1];
      if (change.time <= time && applies(change, context)) return change;
    }
    return {0, kEverywhere, before_};
  }

  // True if at() gives the same state for every time up to `time`.
  [[nodiscard]] bool was_constant(std::uint64_t time, std::uint32_t context) const noexcept {
    const bool now = at(time, context).on;
    if (before_ != now) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      const Switch& change = changes_[i];
      if (change.time <= time && applies(change, context) && change.on != now) return false;
    }
    return true;
  }

  // Called when CUPTI's clock was exchanged: the times of past switches mean nothing any more. `on`
  // is the present state of all contexts but those that were switched singly after the last switch
  // for all contexts.
  void forget_times(bool on, bool known) noexcept {
    before_ = on;
    is_known_ = known;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const Switch change = changes_[i];
      if (change.context == kEverywhere) {
        kept = 0;
      } else {
        changes_[kept++] = {0, change.context, change.on};
      }
    }
    count_ = kept;
  }

  // True if the kind is on now, for one context at least.
  [[nodiscard]] bool is_on_anywhere() const noexcept {
    for (std::size_t i = count_; i > 0; --i) {
      if (changes_[i - 1].on) return true;
      if (changes_[i - 1].context == kEverywhere) return false;
    }
    return before_;
  }

  // True if the kind or function was ever switched.
  [[nodiscard]] bool is_known() const noexcept { return is_known_ || count_ != 0; }

 private:
  [[nodiscard]] static bool applies(const Switch& change, std::uint32_t context) noexcept {
    return change.context == kEverywhere || change.context == context;
  }

  // Index of the oldest switch that `newest` or a switch before it overrides; 0 if there is none.
  [[nodiscard]] std::size_t first_overridden(const Switch& newest) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint32_t context = changes_[i].context;
      if (applies(newest, context)) return i;
      for (std::size_t later = i + 1; later < count_; ++later) {
        if (applies(changes_[later], context)) return i;
      }
    }
    return 0;
  }

  Switch changes_[kCapacity];
  std::size_t count_ = 0;
  bool before_ = false;
  bool is_known_ = false;
};

struct Callbacks {
  RequestFunction* request = nullptr;
  CompleteFunction* complete = nullptr;
};

class Client {
 public:
  void set_callbacks(const Callbacks& callbacks) noexcept;
  Callbacks callbacks() noexcept;

  void switch_kind(Kind kind, const Switch& change) noexcept;
  void switch_function(trace::ActivityDomain domain, CallbackId function,
                       const Switch& change) noexcept;
  // True if the client has any kind enabled now that needs a buffer.
  [[nodiscard]] bool collects() const noexcept { return collects_.load(); }
  void forget_times() noexcept;
  void forget_all() noexcept;
  void free_in_child() noexcept { lock_.free_in_child(); }

  // True if a record that began at `time` is the client's.
  [[nodiscard]] bool owns(const RawRecord& record, std::uint64_t time) noexcept;
  // True if owns() returns the same for every time up to `time`; not for records of API calls.
  [[nodiscard]] bool is_certain(const RawRecord& record, std::uint64_t time) noexcept;

  // Counts records that the client did not get; take_dropped() sets their number to zero.
  void add_dropped(std::uint64_t records) noexcept { dropped_.fetch_add(records); }
  std::uint64_t take_dropped() noexcept { return dropped_.exchange(0); }

 private:
  static constexpr std::size_t kMostKinds = 64;
  using FunctionHistory = History<4>;

  [[nodiscard]] bool has_any_kind() noexcept;
  void forget_functions(trace::ActivityDomain domain) noexcept;
  Switch state_at(Kind kind, std::uint64_t time, std::uint32_t context) noexcept;
  Switch call_state_at(trace::ActivityDomain domain, CallbackId function,
                       std::uint64_t time) noexcept;
  FunctionHistory* history_of(trace::ActivityDomain domain, CallbackId function) noexcept;

  SpinLock lock_;
  Callbacks callbacks_;
  std::atomic<bool> collects_ = false;
  History<64> kinds_[kMostKinds];
  FunctionHistory driver_functions_[kMostFunctions];
  FunctionHistory runtime_functions_[kMostFunctions];
  std::atomic<std::uint64_t> dropped_ = 0;
};

}  // namespace gpumemtrace::cupti
