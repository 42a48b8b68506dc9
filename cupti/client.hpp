// SPDX-License-Identifier: Apache-2.0
// The program's own use of one libcupti, as far as it cannot be left to CUPTI once our callbacks
// are the registered ones: its callbacks, its switches with their times, its dropped records.
//
// Any thread. The lock inside is held for a few instructions and never around a call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/copy_functions.hpp"
#include "cupti/history.hpp"
#include "cupti/records.hpp"
#include "cupti/spin_lock.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

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
  // True if owns() returns the same for every time up to `time`.
  [[nodiscard]] bool is_certain(const RawRecord& record, std::uint64_t time) noexcept;

  // Records that the client did not get; taking their numbers sets them to zero.
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
