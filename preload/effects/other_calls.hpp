// SPDX-License-Identifier: Apache-2.0
// Calls that matter for their time and result only.
#pragma once

#include "preload/effects/effect.hpp"
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

}  // namespace gpumemtrace::preload::effects
