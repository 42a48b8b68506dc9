// SPDX-License-Identifier: Apache-2.0
// Events, insofar as blocks wait for them.
#pragma once

#include "preload/effects/effect.hpp"
#include "preload/session/block_waits.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

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
