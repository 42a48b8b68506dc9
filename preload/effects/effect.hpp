// SPDX-License-Identifier: Apache-2.0
// The meaning of a driver function for memory, as types: apis.def binds each exported symbol to one
// of the effects in this folder, which has a file for each family of calls. An effect names its
// record and fills the record in two steps:
//
//   before(record, arguments...)  in the slot, before the real call: everything the caller passed
//   after(record, arguments...)   after the call, only if it succeeded: what the driver returned
//
// and may have a third step, which runs whether or not anything is recorded:
//
//   track(result, arguments...)   keeps the thread's current context, captures and pools known
//
// Arguments are named by their position, from 0. Nothing here allocates, locks or calls the driver.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "preload/driver/cuda_abi.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

using namespace cuda_abi;

inline constexpr int kNone = -1;

template <int kIndex, class... Arguments>
constexpr decltype(auto) argument(const Arguments&... arguments) noexcept {
  return std::get<kIndex>(std::tie(arguments...));
}

// Handles and addresses of any type as the 64 bits that records carry.
template <class Value>
std::uint64_t bits(const Value& value) noexcept {
  if constexpr (std::is_pointer_v<Value>) {
    return reinterpret_cast<std::uintptr_t>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

template <int kIndex, class... Arguments>
std::uint64_t input(const Arguments&... arguments) noexcept {
  if constexpr (kIndex == kNone) {
    return 0;
  } else {
    return bits(argument<kIndex>(arguments...));
  }
}

// The value that the driver stored through the pointer argument; 0 if the caller passed no pointer.
template <int kIndex, class... Arguments>
std::uint64_t output(const Arguments&... arguments) noexcept {
  const auto& pointer = argument<kIndex>(arguments...);
  return pointer == nullptr ? 0 : bits(*pointer);
}

// Base of effects whose call is only tracked, and not recorded.
template <class RecordType>
struct OnlyTracked {
  using Record = RecordType;
  static constexpr bool kRecorded = false;
};

// A call with elements in arrays, as many as argument kCount says: one record for each element,
// which Effect::part(record, index, arguments...) fills in. The first record stands for the call.
template <class Effect, int kCount>
struct Batch {
  template <class Record, class... A>
  static void before(Record& record, const A&... a) noexcept {
    Effect::part(record, 0, a...);
  }
  template <class... A>
  static std::uint32_t parts(const A&... a) noexcept {
    return static_cast<std::uint32_t>(argument<kCount>(a...));
  }
};

// Base of effects whose call stores one value through argument kIndex, for which the record has one
// field.
template <auto kMember, int kIndex = 0>
struct Outputs;
template <class RecordType, std::uint64_t RecordType::*kMember, int kIndex>
struct Outputs<kMember, kIndex> {
  using Record = RecordType;
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.*kMember = output<kIndex>(a...);
  }
};

}  // namespace gpumemtrace::preload::effects
