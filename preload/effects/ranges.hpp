// SPDX-License-Identifier: Apache-2.0
// Calls about a range of existing memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/effects/effect.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

// kValue: a device, an advice or a location; locations are recorded by their id.
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

// (addresses[], sizes[], count, ..., stream)
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

// (parameters[], count, flags, error index*, stream)
struct Decompresses {
  using Record = trace::Range;
  static void before(Record& record, CUmemDecompressParams* parameters, std::size_t count,
                     unsigned int, std::size_t*, CUstream stream) noexcept;
};

// (stream, address, value, flags)
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

}  // namespace gpumemtrace::preload::effects
