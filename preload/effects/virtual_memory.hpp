// SPDX-License-Identifier: Apache-2.0
// Effects of calls about reservations, mappings and handles of virtual memory management, and about
// memory of other processes and of other APIs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "preload/base/key_table.hpp"
#include "preload/driver/driver.hpp"
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

// Arguments: (address*, bytes, ...). The driver stores the reserved address.
struct ReservesAddresses : Outputs<&trace::Mapping::address> {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::MappingOperation::kReserve;
    record.bytes = input<1>(a...);
  }
};

// The driver stores a handle through argument 0.
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

// The driver stores, through argument 0, the address of memory of another process or API.
template <trace::ImportOperation kOperation, int kHandle = kNone>
struct OpensImport : Outputs<&trace::Import::address> {
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.handle = input<kHandle>(a...);
  }
};

// Hash of an IPC handle, the same in every process: the analyzer uses it to find the process that
// exported the allocation which another process opens.
inline std::uint64_t hash_of(const CUipcMemHandle& handle) noexcept {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < sizeof handle; i += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, handle.reserved + i, sizeof word);
    hash = mix(hash, word);
  }
  return hash;
}

// Arguments: (handle*, address).
struct ExportsIpc {
  using Record = trace::Import;
  static void before(Record& record, CUipcMemHandle*, CUdeviceptr address) noexcept {
    record.operation = trace::ImportOperation::kIpcExport;
    record.address = address;
  }
  static void after(Record& record, const CUipcMemHandle* handle, CUdeviceptr) noexcept {
    record.handle = hash_of(*handle);
  }
};

// Arguments: (address*, handle by value, flags). The driver is asked for the size after the call.
struct OpensIpc {
  using Record = trace::Import;
  static void before(Record& record, CUdeviceptr*, const CUipcMemHandle& handle,
                     unsigned int) noexcept {
    record.operation = trace::ImportOperation::kIpcOpen;
    record.handle = hash_of(handle);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
    record.bytes = driver::mapped_bytes(record.address);
  }
};

template <trace::ImportOperation kOperation, int kAddress, int kHandle = kNone>
struct UsesImport {
  using Record = trace::Import;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.address = input<kAddress>(a...);
    record.handle = input<kHandle>(a...);
  }
};

// Arguments: (external memory*, description).
struct ImportsExternal : Outputs<&trace::Import::handle> {
  static void before(Record& record, CUexternalMemory*,
                     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) noexcept {
    record.operation = trace::ImportOperation::kExternalImport;
    if (description != nullptr) record.bytes = description->size;
  }
};

// Arguments: (address*, external memory, description).
struct MapsExternal : Outputs<&trace::Import::address> {
  static void before(Record& record, CUdeviceptr*, CUexternalMemory memory,
                     const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) noexcept {
    record.operation = trace::ImportOperation::kExternalMap;
    record.handle = bits(memory);
    if (description != nullptr) record.bytes = description->size;
  }
};

// Arguments: (address*, bytes*, resource).
struct GetsGraphicsPointer {
  using Record = trace::Import;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::ImportOperation::kGraphicsPointer;
    record.handle = input<2>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
    record.bytes = output<1>(a...);
  }
};

}  // namespace gpumemtrace::preload::effects
