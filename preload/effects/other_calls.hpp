// SPDX-License-Identifier: Apache-2.0
// Calls that matter for their time and result only.
#pragma once

#include "preload/effects/effect.hpp"
#include "preload/session/block_waits.hpp"
#include "preload/session/cupti_collection.hpp"
#include "preload/session/session.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

template <int kArgument = kNone>
struct Happens {
  using Record = trace::OtherCall;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.argument = input<kArgument>(a...);
  }
};

// Modules and streams, for which the driver may take memory of the device.
template <int kArgument = kNone>
struct TakesDriverMemory : Happens<kArgument> {
  template <class... A>
  static void track(CUresult result, const A&...) noexcept {
    if (result == CUDA_SUCCESS) driver_memory_changed();
  }
};

struct Initializes : OnlyTracked<trace::OtherCall> {
  static void track(CUresult result, unsigned int) noexcept {
    if (result != CUDA_SUCCESS) return;
    // In this order: the last handler registered runs first at exit, while CUPTI still works, and
    // before the driver's own exit handlers.
    start_cupti_collection();
    watch_exit();
  }
};

// --- Events, because blocks wait for them.

struct CreatesEvent : OnlyTracked<trace::OtherCall> {
  static void track(CUresult result, CUevent* event, unsigned int) noexcept {
    if (result == CUDA_SUCCESS && event != nullptr) block_waits::event_created(bits(*event));
  }
};

struct RecordsEvent : OnlyTracked<trace::OtherCall> {
  static void track(CUresult result, CUevent event, CUstream) noexcept {
    if (result == CUDA_SUCCESS) block_waits::event_recorded(bits(event));
  }
};

struct QueriesEvent : OnlyTracked<trace::OtherCall> {
  static void track(CUresult result, CUevent event) noexcept {
    if (result == CUDA_SUCCESS) block_waits::event_was_over(bits(event));
  }
};

}  // namespace gpumemtrace::preload::effects
