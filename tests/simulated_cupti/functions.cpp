// SPDX-License-Identifier: Apache-2.0
// The exported functions of the simulated CUPTI. Results and side effects are those that were
// measured with a real CUPTI 13.0.
#include <cstring>

#include "cupti/abi.hpp"
#include "tests/simulated_cupti/state.hpp"

namespace gpumemtrace::simulated_cupti {
namespace {

constexpr Result kInvalidKind = 21;
constexpr std::uint32_t kMostKinds = 55;

Result guarded() {
  const bool is_refused = state().settings.held || state().has_subscriber_v2;
  return is_refused ? kMultipleSubscribers : kSuccess;
}

SelectedCalls* calls_of(Kind kind) {
  if (kind == Kind::kDriver) return &state().driver;
  return kind == Kind::kRuntime ? &state().runtime : nullptr;
}

Result switch_kind(Kind kind, bool on) {
  State& cupti = state();
  if (const Result result = guarded(); result != kSuccess) return result;
  const auto value = static_cast<std::uint32_t>(kind);
  if (value == 0 || value >= kMostKinds) return kInvalidKind;
  const std::unique_lock lock(cupti.mutex);
  if (SelectedCalls* const calls = calls_of(kind)) {
    // Switching a kind on or off discards the earlier selection of single functions.
    *calls = SelectedCalls{};
    calls->whole_kind = on;
  }
  if (on) {
    cupti.kinds.insert(value);
  } else {
    cupti.kinds.erase(value);
  }
  return kSuccess;
}

// Once a context exists, single functions can be selected only within a kind that is on.
Result select(SelectedCalls& calls, CallbackId function, bool on) {
  State& cupti = state();
  if (const Result result = guarded(); result != kSuccess) return result;
  const std::unique_lock lock(cupti.mutex);
  if (calls.whole_kind) {
    if (on) {
      calls.off.erase(function);
    } else {
      calls.off.insert(function);
    }
  } else if (!on) {
    calls.on.erase(function);
  } else if (!cupti.context_exists) {
    calls.on.insert(function);
  }
  return kSuccess;
}

std::size_t record_bytes(const std::uint8_t* record, std::size_t left) {
  std::uint32_t kind = 0;
  if (left < sizeof kind) return 0;
  std::memcpy(&kind, record, sizeof kind);
  const bool is_new = state().settings.version >= 26;
  switch (static_cast<Kind>(kind)) {
    case Kind::kMemcpy:
      return is_new ? 96 : 88;
    case Kind::kMemset:
      return 88;
    case Kind::kDriver:
    case Kind::kRuntime:
      return 40;
    default:
      return 0;
  }
}

}  // namespace
}  // namespace gpumemtrace::simulated_cupti

namespace simulated = gpumemtrace::simulated_cupti;
using namespace gpumemtrace::cupti;

#define GPUMEMTRACE_EXPORT extern "C" __attribute__((visibility("default"))) Result

GPUMEMTRACE_EXPORT cuptiGetVersion(std::uint32_t* version) {
  *version = simulated::state().settings.version;
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiGetTimestamp(std::uint64_t* timestamp) {
  *timestamp = simulated::timestamp();
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiGetContextId(Context, std::uint32_t* id) {
  *id = 1;
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityRegisterCallbacks(RequestFunction* request,
                                                  CompleteFunction* complete) {
  simulated::State& cupti = simulated::state();
  if (request == nullptr || complete == nullptr) return kInvalidParameter;
  if (simulated::guarded() != kSuccess || !simulated::listen_to_driver()) {
    return kMultipleSubscribers;
  }
  const std::unique_lock lock(cupti.mutex);
  cupti.registered = true;
  cupti.callbacks = {request, complete};
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityEnable(Kind kind) { return simulated::switch_kind(kind, true); }
GPUMEMTRACE_EXPORT cuptiActivityDisable(Kind kind) { return simulated::switch_kind(kind, false); }
GPUMEMTRACE_EXPORT cuptiActivityEnableAndDump(Kind kind) {
  return simulated::switch_kind(kind, true);
}
GPUMEMTRACE_EXPORT cuptiActivityEnableContext(Context, Kind kind) {
  return simulated::switch_kind(kind, true);
}
GPUMEMTRACE_EXPORT cuptiActivityDisableContext(Context, Kind kind) {
  return simulated::switch_kind(kind, false);
}
GPUMEMTRACE_EXPORT cuptiActivityEnableDriverApi(CallbackId function, std::uint8_t on) {
  return simulated::select(simulated::state().driver, function, on != 0);
}
GPUMEMTRACE_EXPORT cuptiActivityEnableRuntimeApi(CallbackId function, std::uint8_t on) {
  return simulated::select(simulated::state().runtime, function, on != 0);
}
GPUMEMTRACE_EXPORT cuptiActivityConfigureUnifiedMemoryCounter(ManagedCounterConfig*,
                                                              std::uint32_t) {
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityFlushAll(std::uint32_t) {
  if (const Result result = simulated::guarded(); result != kSuccess) return result;
  std::unique_lock lock(simulated::state().mutex);
  simulated::complete_all(lock);
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityFlushPeriod(std::uint32_t) { return simulated::guarded(); }

GPUMEMTRACE_EXPORT cuptiActivityFlush(Context, std::uint32_t, std::uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}

GPUMEMTRACE_EXPORT cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes,
                                              std::uint8_t** record) {
  std::uint8_t* next = buffer;
  if (*record != nullptr) {
    const std::size_t left = valid_bytes - static_cast<std::size_t>(*record - buffer);
    const std::size_t bytes = simulated::record_bytes(*record, left);
    if (bytes == 0) return simulated::kInvalidKind;
    next = *record + bytes;
  }
  if (next >= buffer + valid_bytes) return kMaxLimitReached;
  *record = next;
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityGetNumDroppedRecords(Context, std::uint32_t, std::size_t* dropped) {
  const std::unique_lock lock(simulated::state().mutex);
  *dropped = simulated::state().dropped;
  simulated::state().dropped = 0;
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityRegisterTimestampCallback(TimestampFunction* clock) {
  if (clock == nullptr) return kInvalidParameter;
  simulated::state().clock.store(clock);
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivitySetAttribute(Attribute attribute, std::size_t* bytes, void* value) {
  if (bytes == nullptr || value == nullptr || *bytes != sizeof(std::size_t)) {
    return kInvalidParameter;
  }
  const std::unique_lock lock(simulated::state().mutex);
  std::memcpy(&simulated::state().attributes[attribute], value, sizeof(std::size_t));
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiActivityGetAttribute(Attribute attribute, std::size_t* bytes, void* value) {
  if (bytes == nullptr || value == nullptr || *bytes != sizeof(std::size_t)) {
    return kInvalidParameter;
  }
  const std::unique_lock lock(simulated::state().mutex);
  std::memcpy(value, &simulated::state().attributes[attribute], sizeof(std::size_t));
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiSubscribe(void** subscriber, void*, void*) {
  simulated::State& cupti = simulated::state();
  if (cupti.settings.held || !simulated::listen_to_driver()) return kMultipleSubscribers;
  const std::unique_lock lock(cupti.mutex);
  if (cupti.subscribed) return kMultipleSubscribers;
  cupti.subscribed = true;
  *subscriber = &cupti;
  return kSuccess;
}

// Subscribers by cuptiSubscribe_v2 and clients of the functions without this suffix exclude each
// other (CUPTI 13.3). Other features of such a subscriber are not simulated.
GPUMEMTRACE_EXPORT cuptiSubscribe_v2(void** subscriber, void*, void*, void*) {
  simulated::State& cupti = simulated::state();
  const std::unique_lock lock(cupti.mutex);
  if (cupti.settings.held || cupti.registered || cupti.subscribed) return kMultipleSubscribers;
  cupti.has_subscriber_v2 = true;
  *subscriber = &cupti;
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiUnsubscribe(void*) {
  const std::unique_lock lock(simulated::state().mutex);
  simulated::state().subscribed = simulated::state().has_subscriber_v2 = false;
  return kSuccess;
}

GPUMEMTRACE_EXPORT cuptiFinalize() {
  simulated::State& cupti = simulated::state();
  const std::unique_lock lock(cupti.mutex);
  cupti.registered = false;
  cupti.callbacks = {};
  cupti.kinds.clear();
  cupti.driver = {};
  cupti.runtime = {};
  cupti.device_buffer = {};
  cupti.call_buffers.clear();
  cupti.subscribed = false;
  return kSuccess;
}
