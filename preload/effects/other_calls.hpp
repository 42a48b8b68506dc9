// SPDX-License-Identifier: Apache-2.0
// Effects of calls about a range of existing memory, and of calls that matter for their time and
// result only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/effects/effect.hpp"
#include "preload/session/block_waits.hpp"
#include "preload/session/cupti_collection.hpp"
#include "preload/session/session.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

// Argument kValue is a device, an advice or a location; locations are recorded by their id.
template <trace::RangeOperation kOperation, int kAddress, int kBytes, int kValue = kNone,
          int kStream = kNone>
struct Touches {
  using Record = trace::Range;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.address = input<kAddress>(a...);
    record.bytes = input<kBytes>(a...);
    record.stream = input<kStream>(a...);
    if constexpr (kValue != kNone) {
      const auto& value = argument<kValue>(a...);
      if constexpr (requires { value.id; }) {
        record.value = value.id;
      } else {
        record.value = static_cast<std::int32_t>(value);
      }
    }
  }
};

// Arguments: (addresses[], sizes[], count, ..., stream).
template <trace::RangeOperation kOperation, int kStream>
struct TouchesBatch : Batch<TouchesBatch<kOperation, kStream>, 2> {
  using Record = trace::Range;
  template <class... A>
  static void part(Record& record, std::uint32_t index, const A&... a) noexcept {
    record.operation = kOperation;
    record.part = index;
    record.stream = input<kStream>(a...);
    if (index >= argument<2>(a...)) return;
    record.address = argument<0>(a...)[index];
    record.bytes = argument<1>(a...)[index];
  }
};

// Arguments: (parameters[], count, flags, error index*, stream).
struct Decompresses {
  using Record = trace::Range;
  static void before(Record& record, CUmemDecompressParams* parameters, std::size_t count,
                     unsigned int, std::size_t*, CUstream stream) noexcept;
};

// Arguments: (stream, address, value, flags).
template <int kBytes>
struct WritesValue {
  using Record = trace::Range;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::RangeOperation::kStreamWrite;
    record.stream = input<0>(a...);
    record.address = input<1>(a...);
    record.bytes = kBytes;
  }
};

template <int kArgument = kNone>
struct Happens {
  using Record = trace::OtherCall;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.argument = input<kArgument>(a...);
  }
};

// Calls about modules and streams, for which the driver may take memory of the device.
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
    // watch_exit() comes last: the exit handler registered last runs first, so ours runs while
    // CUPTI still works, and before the driver's exit handlers.
    start_cupti_collection();
    watch_exit();
  }
};

// --- CUDA events, because PyTorch's blocks wait for them.

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
