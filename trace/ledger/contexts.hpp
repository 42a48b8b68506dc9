// SPDX-License-Identifier: Apache-2.0
// The CUDA contexts of a process: the device of each, and the allocations that end with a context.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/order.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

struct Context {
  std::int32_t device = kUnknownDevice;
  bool is_primary = false;
  bool is_announced = false;
  CallSite opened_at{};  // the first call that created or retained the context
};

// The reason why allocations ended without a free.
enum class EndedBy : std::uint8_t { kNothing, kContextDestroyed, kPrimaryReset, kPrimaryReleased };

constexpr std::string_view name_of(EndedBy end) {
  constexpr std::array<std::string_view, 4> kNames = {
      "", "context_destroyed", "primary_context_reset", "primary_context_released"};
  return kNames[static_cast<std::size_t>(end)];
}

// The end of a context, which ends the allocations in it.
struct Teardown {
  EndedBy reason = EndedBy::kNothing;
  bool at_exit = false;  // the context ended after the process began to exit
  CallSite site;

  friend auto operator<=>(const Teardown&, const Teardown&) = default;
};

[[nodiscard]] constexpr EndedBy end_of(const trace::ContextCall& call) {
  if (call.call.record.result != trace::kCudaSuccess) return EndedBy::kNothing;
  switch (call.operation) {
    case trace::ContextOperation::kDestroy:
      return EndedBy::kContextDestroyed;
    case trace::ContextOperation::kResetPrimary:
      return EndedBy::kPrimaryReset;
    case trace::ContextOperation::kReleasePrimary:
      return call.still_active == 0 ? EndedBy::kPrimaryReleased : EndedBy::kNothing;
    default:
      return EndedBy::kNothing;
  }
}

// The contexts of a process. failed() if the system had no memory; results are worthless then.
class Contexts {
 public:
  // The context with the id; nullptr if no process could have such an id.
  [[nodiscard]] Context* find_or_add(trace::ContextId id) {
    const std::uint32_t index = number_of(id);
    if (index >= kMaxContexts) return nullptr;
    if (index >= contexts_.size() && !contexts_.resize(index + 1)) {
      failed_ = true;
      return nullptr;
    }
    return &contexts_[index];
  }
  // Takes over a Context record; false if it adds nothing new.
  [[nodiscard]] bool announce(const trace::Context& record) {
    Context* const context = find_or_add(record.id);
    if (context == nullptr) return true;
    const bool is_primary = record.primary != 0;
    const bool is_new = !context->is_announced || context->device != record.device ||
                        context->is_primary != is_primary;
    context->device = record.device;
    context->is_primary = is_primary;
    context->is_announced = true;
    return is_new;
  }
  // True if the call is the first that opened its context; the context remembers `site`.
  [[nodiscard]] bool open(const trace::ContextCall& call, const CallSite& site) {
    const bool opens = call.operation == trace::ContextOperation::kCreate ||
                       call.operation == trace::ContextOperation::kRetainPrimary;
    if (!opens || call.call.record.result != trace::kCudaSuccess) return false;
    Context* const context = find_or_add(call.handle_context);
    if (context == nullptr || context->opened_at != CallSite{}) return false;
    context->opened_at = site;
    return true;
  }

  [[nodiscard]] std::int32_t device_of(const trace::ContextCall& call) const {
    return call.device >= 0 ? call.device : device_of(call.handle_context);
  }
  [[nodiscard]] std::int32_t device_of(trace::ContextId context) const {
    const std::uint32_t index = number_of(context);
    return index < contexts_.size() ? contexts_[index].device : kUnknownDevice;
  }
  // The device whose memory a call in the context takes, if the call itself named no location.
  [[nodiscard]] std::int32_t device_of(Kind kind, std::int32_t location,
                                       trace::ContextId context) const {
    if (level_of(kind) == Level::kHost) return kHostDevice;
    if (location >= 0) return location;
    const std::int32_t device = device_of(context);
    return device < 0 || location == trace::kNoKnownDevice ? kUnknownDevice : device;
  }
  // True if the call, which ends a context, also ends memory of this kind, device and context.
  // Physical memory belongs to the process and stays. Pools belong to the device and end with its
  // primary context.
  [[nodiscard]] bool ends_with(const trace::ContextCall& call, Kind kind, std::int32_t device,
                               trace::ContextId context) const {
    const bool is_primary = call.operation != trace::ContextOperation::kDestroy;
    if (kind == Kind::kStreamOrdered) return is_primary && device == call.device;
    if (context == trace::ContextId::kNone) return false;
    if (call.handle_context != trace::ContextId::kNone || !is_primary) {
      return context == call.handle_context;
    }
    const std::uint32_t index = number_of(context);
    return index < contexts_.size() && contexts_[index].is_primary &&
           contexts_[index].device == call.device;
  }

  [[nodiscard]] const MappedArray<Context>& contexts() const { return contexts_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  // The bound of context ids, far above those of any process; a damaged record must not make the
  // table huge.
  static constexpr std::uint32_t kMaxContexts = 1 << 16;

  MappedArray<Context> contexts_;
  bool failed_ = false;
};

}  // namespace gpumemtrace::ledger
