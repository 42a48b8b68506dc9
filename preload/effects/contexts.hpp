// SPDX-License-Identifier: Apache-2.0
// Effects of calls that make, end or select a CUDA context.
#pragma once

#include "preload/driver/driver.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/effects/effect.hpp"
#include "preload/session/context_records.hpp"
#include "preload/session/session.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

// Called after a call that named a context. `new_id` is the context's id if no earlier call named
// it, else kNone. The driver may just have made such a new context, and taken memory for it.
inline void announce_context(trace::ContextId new_id) noexcept {
  record_context(new_id);
  if (new_id != trace::ContextId::kNone) driver_memory_changed();
}
// Called after a call that made a context, which takes a tenth of a second on a GPU. Another thread
// may name the context meanwhile, so it counts as new even if `new_id` is kNone.
inline void announce_created_context(trace::ContextId new_id) noexcept {
  record_context(new_id);
  driver_memory_changed();
}

// Base of effects whose call stores a context through argument 0.
struct OutputsContext {
  using Record = trace::ContextCall;
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
    record.handle_context = tracking::context_id(record.handle);
  }
};

// Arguments: (context*, ..., device).
template <int kDevice>
struct CreatesContext : OutputsContext {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::ContextOperation::kCreate;
    record.device = argument<kDevice>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&... a) noexcept {
    if (result != CUDA_SUCCESS || argument<0>(a...) == nullptr) return;
    announce_created_context(tracking::context_created(output<0>(a...), argument<kDevice>(a...)));
  }
};

struct DestroysContext {
  using Record = trace::ContextCall;
  static void before(Record& record, CUcontext context) noexcept {
    record.operation = trace::ContextOperation::kDestroy;
    record.handle = bits(context);
    record.handle_context = tracking::context_id(record.handle);
  }
  static void prepare(CUcontext) noexcept { tracking::teardown_begins(); }
  static void track(CUresult result, CUcontext context) noexcept {
    tracking::teardown_ended();
    if (result != CUDA_SUCCESS) return;
    tracking::context_destroyed(bits(context));
    driver_memory_changed();
  }
};

struct SetsCurrentContext : OnlyTracked<trace::ContextCall> {
  static void track(CUresult result, CUcontext context) noexcept {
    if (result == CUDA_SUCCESS) announce_context(tracking::context_set(bits(context)));
  }
};

struct PushesContext : OnlyTracked<trace::ContextCall> {
  static void track(CUresult result, CUcontext context) noexcept {
    if (result == CUDA_SUCCESS) announce_context(tracking::context_pushed(bits(context)));
  }
};

struct PopsContext : OnlyTracked<trace::ContextCall> {
  static void track(CUresult result, CUcontext*) noexcept {
    if (result == CUDA_SUCCESS) tracking::context_popped();
  }
};

struct RetainsPrimary : OutputsContext {
  static void before(Record& record, CUcontext*, CUdevice device) noexcept {
    record.operation = trace::ContextOperation::kRetainPrimary;
    record.device = device;
  }
  static void track(CUresult result, CUcontext* context, CUdevice device) noexcept {
    if (result != CUDA_SUCCESS || context == nullptr) return;
    announce_created_context(tracking::primary_retained(bits(*context), device));
  }
};

// The memory of a primary context ends when the context becomes inactive, not with every release.
template <trace::ContextOperation kOperation>
struct EndsPrimary {
  using Record = trace::ContextCall;
  static void before(Record& record, CUdevice device) noexcept {
    record.operation = kOperation;
    record.device = device;
    record.handle_context = tracking::primary_context_id(device);
  }
  static void after(Record& record, CUdevice device) noexcept {
    record.still_active = driver::primary_context_is_active(device) ? 1 : 0;
  }
  static void prepare(CUdevice) noexcept { tracking::teardown_begins(); }
  static void track(CUresult result, CUdevice device) noexcept {
    tracking::teardown_ended();
    if (result == CUDA_SUCCESS && !driver::primary_context_is_active(device)) {
      tracking::primary_ended(device);
      driver_memory_changed();
    }
  }
};

template <trace::ContextOperation kOperation, int kHandle = kNone, int kValue = kNone>
struct AdjustsContext {
  using Record = trace::ContextCall;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.handle = input<kHandle>(a...);
    record.value = input<kValue>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&...) noexcept
      requires(kOperation == trace::ContextOperation::kSetLimit) {
    if (result == CUDA_SUCCESS) driver_memory_changed();
  }
};

struct CreatesGreenContext : Outputs<&trace::ContextCall::handle> {
  static void before(Record& record, CUgreenCtx*, CUdevResourceDesc, CUdevice device,
                     unsigned int) noexcept {
    record.operation = trace::ContextOperation::kGreenCreate;
    record.device = device;
  }
};

// Arguments: (context*, green context). The driver stores the context of the green one.
struct GetsContextOfGreen : OnlyTracked<trace::ContextCall> {
  static void track(CUresult result, CUcontext* context, CUgreenCtx) noexcept {
    if (result != CUDA_SUCCESS || context == nullptr) return;
    announce_context(tracking::context_seen(bits(*context)));
  }
};

}  // namespace gpumemtrace::preload::effects
