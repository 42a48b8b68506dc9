// SPDX-License-Identifier: Apache-2.0
#include "cupti/client.hpp"

namespace gpumemtrace::cupti {
namespace {

using trace::ActivityDomain;

Kind kind_of(ActivityDomain domain) noexcept {
  return domain == ActivityDomain::kDriver ? Kind::kDriver : Kind::kRuntime;
}

constexpr std::uint64_t kNow = ~std::uint64_t{0};

}  // namespace

void Client::set_callbacks(const Callbacks& callbacks) noexcept {
  const SpinGuard guard(lock_);
  callbacks_ = callbacks;
}

Callbacks Client::callbacks() noexcept {
  const SpinGuard guard(lock_);
  return callbacks_;
}

void Client::switch_kind(Kind kind, const Switch& change) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  if (number >= kMostKinds) return;
  const SpinGuard guard(lock_);
  kinds_[number].add(change);
  // Switches of time 0 have no order: that of a kind is taken for later than those of the kind's
  // functions, and overrides them.
  if (change.time == 0 && is_call(kind)) forget_functions(domain_of(kind));
  collects_.store(change.on || has_any_kind());
}

void Client::forget_functions(ActivityDomain domain) noexcept {
  for (CallbackId function = 0; function < kMostFunctions; ++function) {
    *history_of(domain, function) = {};
  }
}

bool Client::has_any_kind() noexcept {
  for (const auto& history : kinds_) {
    if (history.is_on_anywhere()) return true;
  }
  return false;
}

Client::FunctionHistory* Client::history_of(ActivityDomain domain, CallbackId function) noexcept {
  if (function >= kMostFunctions) return nullptr;
  return domain == ActivityDomain::kDriver ? &driver_functions_[function]
                                           : &runtime_functions_[function];
}

void Client::switch_function(ActivityDomain domain, CallbackId function,
                             const Switch& change) noexcept {
  const SpinGuard guard(lock_);
  if (FunctionHistory* history = history_of(domain, function)) history->add(change);
  if (change.on) collects_.store(true);
}

// Keeps only the present states. A function has a state of its own only if that differs from the
// state of the function's kind.
void Client::forget_times() noexcept {
  const SpinGuard guard(lock_);
  for (const ActivityDomain domain : {ActivityDomain::kDriver, ActivityDomain::kRuntime}) {
    const bool by_kind = state_at(kind_of(domain), kNow, kEverywhere).on;
    for (CallbackId function = 0; function < kMostFunctions; ++function) {
      const bool on = call_state_at(domain, function, kNow).on;
      history_of(domain, function)->forget_times(on, on != by_kind);
    }
  }
  for (auto& history : kinds_) {
    const bool on = history.at(kNow, kEverywhere).on;
    history.forget_times(on, history.is_known());
  }
}

void Client::forget_all() noexcept {
  const SpinGuard guard(lock_);
  callbacks_ = {};
  collects_.store(false);
  for (auto& history : kinds_) history = {};
  forget_functions(ActivityDomain::kDriver);
  forget_functions(ActivityDomain::kRuntime);
  dropped_.store(0);
}

Switch Client::state_at(Kind kind, std::uint64_t time, std::uint32_t context) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < kMostKinds ? kinds_[number].at(time, context) : Switch{};
}

// The last switch decides, whether it was that of the kind or of one function of the kind.
Switch Client::call_state_at(ActivityDomain domain, CallbackId function,
                             std::uint64_t time) noexcept {
  const Switch by_kind = state_at(kind_of(domain), time, kEverywhere);
  const FunctionHistory* history = history_of(domain, function);
  if (history == nullptr || !history->is_known()) return by_kind;
  const Switch by_function = history->at(time, kEverywhere);
  return by_function.time >= by_kind.time ? by_function : by_kind;
}

bool Client::owns(const RawRecord& record, std::uint64_t time) noexcept {
  const Kind kind = cupti::kind_of(record);
  const SpinGuard guard(lock_);
  if (is_call(kind)) return call_state_at(domain_of(kind), function_of(record), time).on;
  return state_at(kind, time, context_of(record)).on;
}

bool Client::is_certain(const RawRecord& record, std::uint64_t time) noexcept {
  const auto number = static_cast<std::size_t>(cupti::kind_of(record));
  if (number >= kMostKinds) return true;
  const SpinGuard guard(lock_);
  return kinds_[number].was_constant(time, context_of(record));
}

}  // namespace gpumemtrace::cupti
