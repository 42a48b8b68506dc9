// What a driver function means for memory, as types: apis.def binds each exported symbol to one of
// these. An effect names its record and fills it in two steps:
//
//   before(record, arguments...)  in the slot, before the real call: everything the caller passed
//   after(record, arguments...)   after it, only where it succeeded: everything the driver returned
//
// and may have a third, which runs whether or not anything is recorded:
//
//   track(result, arguments...)   keeps the thread's current context, captures and pools known
//
// Arguments are named by their position, from 0. Nothing here allocates, locks or calls the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "preload/cuda_abi.hpp"
#include "preload/tracking.hpp"
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

// What the driver stored where the argument points to; 0 where the caller passed no pointer.
template <int kIndex, class... Arguments>
std::uint64_t output(const Arguments&... arguments) noexcept {
  const auto& pointer = argument<kIndex>(arguments...);
  return pointer == nullptr ? 0 : bits(*pointer);
}

// --- Allocations and frees -----------------------------------------------------------------

template <trace::MemoryKind kMemory, int kAddress, int kBytes, int kStream = kNone,
          int kPool = kNone>
struct Allocates {
  using Record = trace::Allocation;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = kMemory;
    record.bytes = input<kBytes>(a...);
    record.stream = input<kStream>(a...);
    record.pool = input<kPool>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<kAddress>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&... a) noexcept {
    if constexpr (kPool != kNone) {
      if (result == CUDA_SUCCESS) tracking::pool_seen(input<kPool>(a...));
    } else if constexpr (kMemory == trace::MemoryKind::kStreamOrdered) {
      tracking::pools_in_use();
    }
  }
};

// (address*, pitch*, width, height, element size)
struct AllocatesPitched {
  using Record = trace::Allocation;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = trace::MemoryKind::kPitched;
    record.bytes = input<2>(a...) * input<3>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
    record.bytes = output<1>(a...) * input<3>(a...);
  }
};

// The caller's own memory becomes page-locked: (pointer, bytes, flags).
struct RegistersHost {
  using Record = trace::Allocation;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = trace::MemoryKind::kRegistered;
    record.address = input<0>(a...);
    record.bytes = input<1>(a...);
  }
};

template <trace::MemoryKind kMemory, int kAddress, int kStream = kNone>
struct Frees {
  using Record = trace::Free;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.memory = kMemory;
    record.address = input<kAddress>(a...);
    record.stream = input<kStream>(a...);
  }
};

std::uint64_t element_bytes(CUarray_format format, unsigned int channels) noexcept;

template <class Descriptor>
std::uint64_t array_bytes(const Descriptor& array) noexcept {
  std::uint64_t elements = array.Width;
  if (array.Height != 0) elements *= array.Height;
  if constexpr (requires { array.Depth; }) {
    if (array.Depth != 0) elements *= array.Depth;
  }
  return elements * element_bytes(array.Format, array.NumChannels);
}

// (array*, descriptor); the driver tells no size, so width x height x depth x element stands for
// it.
struct AllocatesArray {
  using Record = trace::Allocation;
  template <class Array, class Descriptor>
  static void before(Record& record, Array, const Descriptor* descriptor) noexcept {
    record.memory = trace::MemoryKind::kArray;
    record.call.record.flags |= trace::kFlagEstimated;
    if (descriptor != nullptr) record.bytes = array_bytes(*descriptor);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
  }
};

struct AllocatesMipmappedArray {
  using Record = trace::Allocation;
  static void before(Record& record, CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                     unsigned int levels) noexcept;
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
  }
};

// (handle*, bytes, properties, flags)
struct CreatesPhysical {
  using Record = trace::Allocation;
  static void before(Record& record, CUmemGenericAllocationHandle*, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) noexcept;
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
  }
};

// --- Virtual memory ------------------------------------------------------------------------

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
struct ReservesAddresses {
  using Record = trace::Mapping;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::MappingOperation::kReserve;
    record.bytes = input<1>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
  }
};

// The driver hands out a handle: argument 0.
template <trace::MappingOperation kOperation, int kAddress = kNone>
struct GetsHandle {
  using Record = trace::Mapping;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.address = input<kAddress>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
  }
};

struct CreatesMulticast {
  using Record = trace::Mapping;
  static void before(Record& record, CUmemGenericAllocationHandle*,
                     const CUmulticastObjectProp* properties) noexcept {
    record.operation = trace::MappingOperation::kMulticastCreate;
    if (properties != nullptr) record.bytes = properties->size;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
  }
};

// --- Pools ---------------------------------------------------------------------------------

struct CreatesPool {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool*, const CUmemPoolProps* properties) noexcept {
    record.operation = trace::PoolOperation::kCreate;
    if (properties == nullptr) return;
    record.value = properties->maxSize;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      record.device = properties->location.id;
    }
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.pool = output<0>(a...);
  }
  static void track(CUresult result, CUmemoryPool* pool, const CUmemPoolProps*) noexcept {
    if (result == CUDA_SUCCESS && pool != nullptr) tracking::pool_seen(bits(*pool));
  }
};

struct DestroysPool {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool pool) noexcept {
    record.operation = trace::PoolOperation::kDestroy;
    record.pool = bits(pool);
  }
  static void prepare(CUmemoryPool pool) noexcept { tracking::pool_ends(bits(pool)); }
};

template <trace::PoolOperation kOperation, int kPool, int kValue = kNone, int kDevice = kNone>
struct UsesPool {
  using Record = trace::Pool;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.pool = input<kPool>(a...);
    record.value = input<kValue>(a...);
    if constexpr (kDevice != kNone) record.device = argument<kDevice>(a...);
  }
};

// (pool*, device)
template <trace::PoolOperation kOperation>
struct GetsPool {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool*, CUdevice device) noexcept {
    record.operation = kOperation;
    record.device = device;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.pool = output<0>(a...);
  }
  static void track(CUresult result, CUmemoryPool* pool, CUdevice) noexcept {
    if (result == CUDA_SUCCESS && pool != nullptr) tracking::pool_seen(bits(*pool));
  }
};

// (pool, attribute, value*)
struct SetsPoolAttribute {
  using Record = trace::Pool;
  static void before(Record& record, CUmemoryPool pool, CUmemPool_attribute attribute,
                     void* value) noexcept;
};

// (location*, type, pool)
struct SetsLocationPool {
  using Record = trace::Pool;
  static void before(Record& record, CUmemLocation* location, CUmemAllocationType,
                     CUmemoryPool pool) noexcept {
    record.operation = trace::PoolOperation::kSetCurrent;
    record.pool = bits(pool);
    if (location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
      record.device = location->id;
    }
  }
};

// --- Copies and sets -----------------------------------------------------------------------

using trace::EndType;

template <EndType kDestinationType, int kDestination, EndType kSourceType, int kSource, int kBytes,
          int kStream = kNone>
struct Copies {
  using Record = trace::Copy;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.destination_type = kDestinationType;
    record.source_type = kSourceType;
    record.destination = input<kDestination>(a...);
    record.source = input<kSource>(a...);
    record.bytes = input<kBytes>(a...);
    record.stream = input<kStream>(a...);
  }
};

constexpr EndType end_type(CUmemorytype type) noexcept {
  return type <= CU_MEMORYTYPE_UNIFIED ? static_cast<EndType>(type) : EndType::kUnknown;
}

// One end of a 2D or 3D copy: the host pointer, device address or array that its type selects.
template <class Host, class Device>
std::uint64_t end_address(CUmemorytype type, Host host, Device device, CUarray array) noexcept {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return bits(host);
    case CU_MEMORYTYPE_ARRAY:
      return bits(array);
    default:
      return bits(device);
  }
}

// The structure of a 2D or 3D copy at `kParameters`, in any of its layouts.
template <int kParameters, int kStream = kNone>
struct CopiesRegion {
  using Record = trace::Copy;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.stream = input<kStream>(a...);
    const auto* copy = argument<kParameters>(a...);
    if (copy == nullptr) return;
    record.destination_type = end_type(copy->dstMemoryType);
    record.source_type = end_type(copy->srcMemoryType);
    record.destination =
        end_address(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray);
    record.source =
        end_address(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray);
    record.bytes = std::uint64_t{copy->WidthInBytes} * copy->Height;
    record.dimensions = 2;
    if constexpr (requires { copy->Depth; }) {
      record.bytes *= copy->Depth;
      record.dimensions = 3;
    }
  }
};

// (destinations[], sources[], sizes[], count, ..., stream): one record an element.
template <int kStream>
struct CopiesBatch {
  using Record = trace::Copy;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    part(record, 0, a...);
  }
  template <class... A>
  static void part(Record& record, std::uint32_t index, const A&... a) noexcept {
    record.part = index;
    record.stream = input<kStream>(a...);
    if (index >= argument<3>(a...)) return;
    record.destination = argument<0>(a...)[index];
    record.source = argument<1>(a...)[index];
    record.bytes = argument<2>(a...)[index];
  }
  template <class... A>
  static std::uint32_t parts(const A&... a) noexcept {
    return static_cast<std::uint32_t>(argument<3>(a...));
  }
};

// (count, operations[], ..., stream)
template <int kStream>
struct CopiesRegionBatch {
  using Record = trace::Copy;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    part(record, 0, a...);
  }
  template <class... A>
  static void part(Record& record, std::uint32_t index, const A&... a) noexcept {
    record.part = index;
    record.dimensions = 3;
    record.stream = input<kStream>(a...);
    if (index >= argument<0>(a...)) return;
    fill(record, argument<1>(a...)[index]);
  }
  template <class... A>
  static std::uint32_t parts(const A&... a) noexcept {
    return static_cast<std::uint32_t>(argument<0>(a...));
  }

 private:
  static void fill(Record& record, const CUDA_MEMCPY3D_BATCH_OP& operation) noexcept {
    record.destination_type = operand_type(operation.dst);
    record.source_type = operand_type(operation.src);
    record.destination = operand_address(operation.dst);
    record.source = operand_address(operation.src);
    record.bytes = operation.extent.width * operation.extent.height * operation.extent.depth;
  }
  static EndType operand_type(const CUmemcpy3DOperand& operand) noexcept {
    return operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? EndType::kArray : EndType::kUnified;
  }
  static std::uint64_t operand_address(const CUmemcpy3DOperand& operand) noexcept {
    return operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? bits(operand.op.array.array)
                                                        : operand.op.ptr.ptr;
  }
};

// (destination, value, count, [stream])
template <int kElementBytes, int kStream = kNone>
struct Sets {
  using Record = trace::Set;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.destination = input<0>(a...);
    record.value = static_cast<std::uint32_t>(input<1>(a...));
    record.element_bytes = kElementBytes;
    record.bytes = input<2>(a...) * kElementBytes;
    record.stream = input<kStream>(a...);
  }
};

// (destination, pitch, value, width, height, [stream])
template <int kElementBytes, int kStream = kNone>
struct SetsRegion {
  using Record = trace::Set;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.destination = input<0>(a...);
    record.value = static_cast<std::uint32_t>(input<2>(a...));
    record.element_bytes = kElementBytes;
    record.bytes = input<3>(a...) * input<4>(a...) * kElementBytes;
    record.stream = input<kStream>(a...);
  }
};

// --- Managed memory and other ranges -------------------------------------------------------

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
struct TouchesBatch {
  using Record = trace::Range;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    part(record, 0, a...);
  }
  template <class... A>
  static void part(Record& record, std::uint32_t index, const A&... a) noexcept {
    record.operation = kOperation;
    record.part = index;
    record.stream = input<kStream>(a...);
    if (index >= argument<2>(a...)) return;
    record.address = argument<0>(a...)[index];
    record.bytes = argument<1>(a...)[index];
  }
  template <class... A>
  static std::uint32_t parts(const A&... a) noexcept {
    return static_cast<std::uint32_t>(argument<2>(a...));
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

// --- Contexts ------------------------------------------------------------------------------

// (context*, ..., device)
template <int kDevice>
struct CreatesContext {
  using Record = trace::ContextCall;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::ContextOperation::kCreate;
    record.device = argument<kDevice>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
    record.handle_context = tracking::context_id(record.handle);
  }
  template <class... A>
  static void track(CUresult result, const A&... a) noexcept {
    if (result != CUDA_SUCCESS || argument<0>(a...) == nullptr) return;
    tracking::context_created(output<0>(a...), argument<kDevice>(a...));
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
    if (result == CUDA_SUCCESS) tracking::context_destroyed(bits(context));
  }
};

struct SetsCurrentContext {
  using Record = trace::ContextCall;
  static constexpr bool kRecorded = false;
  static void track(CUresult result, CUcontext context) noexcept {
    if (result == CUDA_SUCCESS) tracking::context_set(bits(context));
  }
};

struct PushesContext {
  using Record = trace::ContextCall;
  static constexpr bool kRecorded = false;
  static void track(CUresult result, CUcontext context) noexcept {
    if (result == CUDA_SUCCESS) tracking::context_pushed(bits(context));
  }
};

struct PopsContext {
  using Record = trace::ContextCall;
  static constexpr bool kRecorded = false;
  static void track(CUresult result, CUcontext*) noexcept {
    if (result == CUDA_SUCCESS) tracking::context_popped();
  }
};

struct RetainsPrimary {
  using Record = trace::ContextCall;
  static void before(Record& record, CUcontext*, CUdevice device) noexcept {
    record.operation = trace::ContextOperation::kRetainPrimary;
    record.device = device;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
    record.handle_context = tracking::context_id(record.handle);
  }
  static void track(CUresult result, CUcontext* context, CUdevice device) noexcept {
    if (result != CUDA_SUCCESS || context == nullptr) return;
    tracking::primary_retained(bits(*context), device);
  }
};

// The memory of a primary context ends when it has become inactive, not with every release.
template <trace::ContextOperation kOperation>
struct EndsPrimary {
  using Record = trace::ContextCall;
  static void before(Record& record, CUdevice device) noexcept {
    record.operation = kOperation;
    record.device = device;
    record.handle_context = tracking::primary_context_id(device);
  }
  static void after(Record& record, CUdevice device) noexcept {
    record.still_active = tracking::primary_is_active(device) ? 1 : 0;
  }
  static void prepare(CUdevice) noexcept { tracking::teardown_begins(); }
  static void track(CUresult result, CUdevice device) noexcept {
    tracking::teardown_ended();
    if (result == CUDA_SUCCESS && !tracking::primary_is_active(device)) {
      tracking::primary_ended(device);
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
};

struct CreatesGreenContext {
  using Record = trace::ContextCall;
  static void before(Record& record, CUgreenCtx*, CUdevResourceDesc, CUdevice device,
                     unsigned int) noexcept {
    record.operation = trace::ContextOperation::kGreenCreate;
    record.device = device;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
  }
};

// (context*, green context): the context that stands for a green one.
struct GetsContextOfGreen {
  using Record = trace::ContextCall;
  static constexpr bool kRecorded = false;
  static void track(CUresult result, CUcontext* context, CUgreenCtx) noexcept {
    if (result == CUDA_SUCCESS && context != nullptr) tracking::context_seen(bits(*context));
  }
};

// --- Graphs and captures -------------------------------------------------------------------

// Argument kParameters points to CUDA_MEM_ALLOC_NODE_PARAMS; the driver stores the address there.
struct AddsGraphAllocation {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kAddAllocation;
    record.graph = input<1>(a...);
    const auto* parameters = argument<4>(a...);
    if (parameters == nullptr) return;
    record.bytes = parameters->bytesize;
    if (parameters->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      record.device = parameters->poolProps.location.id;
    }
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    if (argument<4>(a...) != nullptr) record.address = argument<4>(a...)->dptr;
  }
};

template <trace::GraphOperation kOperation, int kGraph, int kAddress = kNone, int kStream = kNone>
struct UsesGraph {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.graph = input<kGraph>(a...);
    record.address = input<kAddress>(a...);
    record.stream = input<kStream>(a...);
  }
};

// A node of any type: kParameters points to CUgraphNodeParams.
template <int kParameters>
struct AddsGraphNode {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.graph = input<1>(a...);
    describe(record, argument<kParameters>(a...));
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    describe(record, argument<kParameters>(a...));
  }

 private:
  static void describe(Record& record, const CUgraphNodeParams* parameters) noexcept;
};

std::uint64_t region_bytes(const CUDA_MEMCPY3D* copy) noexcept;

// (…, copy parameters at kParameters)
template <trace::GraphOperation kOperation, int kGraph, int kParameters>
struct AddsGraphCopy {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.graph = input<kGraph>(a...);
    record.bytes = region_bytes(argument<kParameters>(a...));
  }
};

template <trace::GraphOperation kOperation, int kGraph, int kParameters>
struct AddsGraphSet {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.graph = input<kGraph>(a...);
    const auto* set = argument<kParameters>(a...);
    if (set == nullptr) return;
    record.address = set->dst;
    record.bytes = set->width * set->height * set->elementSize;
  }
};

// (executable*, graph, ...)
struct InstantiatesGraph {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kInstantiate;
    record.graph = input<1>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.executable = output<0>(a...);
  }
};

// (clone*, graph)
struct ClonesGraph {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kClone;
    record.graph = input<1>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.executable = output<0>(a...);
  }
};

template <int kStream>
struct BeginsCapture {
  using Record = trace::Graph;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = trace::GraphOperation::kBeginCapture;
    record.stream = input<kStream>(a...);
  }
  template <class... A>
  static void track(CUresult result, const A&...) noexcept {
    if (result == CUDA_SUCCESS) tracking::capture_began();
  }
};

// (stream, graph*)
struct EndsCapture {
  using Record = trace::Graph;
  static void before(Record& record, CUstream stream, CUgraph*) noexcept {
    record.operation = trace::GraphOperation::kEndCapture;
    record.stream = bits(stream);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.graph = output<1>(a...);
  }
  static void track(CUresult, CUstream, CUgraph*) noexcept { tracking::capture_ended(); }
};

struct TrimsGraphMemory {
  using Record = trace::Graph;
  static void before(Record& record, CUdevice device) noexcept {
    record.operation = trace::GraphOperation::kTrim;
    record.device = device;
  }
};

// --- Imports -------------------------------------------------------------------------------

// The driver hands out an address of memory that lives elsewhere: argument 0.
template <trace::ImportOperation kOperation, int kHandle = kNone>
struct OpensImport {
  using Record = trace::Import;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.operation = kOperation;
    record.handle = input<kHandle>(a...);
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
  }
};

// (address*, handle by value, flags): the driver knows the size, asked for after the call.
struct OpensIpc {
  using Record = trace::Import;
  template <class... A>
  static void before(Record& record, const A&...) noexcept {
    record.operation = trace::ImportOperation::kIpcOpen;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
    record.bytes = tracking::mapped_bytes(record.address);
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

// (external memory*, description)
struct ImportsExternal {
  using Record = trace::Import;
  static void before(Record& record, CUexternalMemory*,
                     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) noexcept {
    record.operation = trace::ImportOperation::kExternalImport;
    if (description != nullptr) record.bytes = description->size;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.handle = output<0>(a...);
  }
};

// (address*, external memory, description)
struct MapsExternal {
  using Record = trace::Import;
  static void before(Record& record, CUdeviceptr*, CUexternalMemory memory,
                     const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) noexcept {
    record.operation = trace::ImportOperation::kExternalMap;
    record.handle = bits(memory);
    if (description != nullptr) record.bytes = description->size;
  }
  template <class... A>
  static void after(Record& record, const A&... a) noexcept {
    record.address = output<0>(a...);
  }
};

// (address*, bytes*, resource)
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

// --- The rest ------------------------------------------------------------------------------

template <int kArgument = kNone>
struct Happens {
  using Record = trace::OtherCall;
  template <class... A>
  static void before(Record& record, const A&... a) noexcept {
    record.argument = input<kArgument>(a...);
  }
};

struct Initializes {
  using Record = trace::OtherCall;
  static constexpr bool kRecorded = false;
  static void track(CUresult result, unsigned int) noexcept {
    if (result == CUDA_SUCCESS) tracking::driver_initialized();
  }
};

}  // namespace gpumemtrace::preload::effects
