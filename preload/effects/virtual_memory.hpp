// SPDX-License-Identifier: Apache-2.0
// Reservations, mappings and handles of virtual memory management.
#pragma once

#include "preload/effects/effect.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload::effects {

template <trace::MappingOperation kOperation, int kAddress, int kBytes, int kOffset = kNone,
          int kHandle = kNone>
struct Maps {
  using Record = trace::Mapping;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.address = input<kAddress>(a...);
    record.bytes = input<kBytes>(a...);
    record.offset = input<kOffset>(a...);
    record.handle = input<kHandle>(a...);
  }
};

// The driver hands out an address: (address*, bytes, ...).
struct ReservesAddresses : Outputs<&trace::Mapping::address> {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::MappingOperation::kReserve;
    record.bytes = input<1>(a...);
  }
};

// The driver hands out a handle: argument 0.
template <trace::MappingOperation kOperation, int kAddress = kNone>
struct GetsHandle : Outputs<&trace::Mapping::handle> {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.address = input<kAddress>(a...);
  }
};

struct CreatesMulticast : Outputs<&trace::Mapping::handle> {
  static void before(Record& record, CUmemGenericAllocationHandle*,
                     const CUmulticastObjectProp* properties) noexcept {
    record.operation = trace::MappingOperation::kMulticastCreate;
    if (properties != nullptr) record.bytes = properties->size;
  }
};

}  // namespace gpumemtrace::preload::effects
