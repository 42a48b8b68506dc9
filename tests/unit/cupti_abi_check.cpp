// SPDX-License-Identifier: Apache-2.0
// Compares cupti/'s own types, numbers, places of members and functions with CUPTI's headers, at
// compile time. Without those headers this file is empty.
#include "cupti/abi.hpp"

#if __has_include(<cupti.h>)
#include <cupti.h>

#include <cstddef>
#include <type_traits>

#include "cupti/library.hpp"

namespace {

namespace ours = gpumemtrace::cupti;
namespace layouts = gpumemtrace::cupti::layouts;

#define GPUMEMTRACE_SAME(ours_value, theirs_value) \
  static_assert(static_cast<long long>(ours_value) == static_cast<long long>(theirs_value))
#define GPUMEMTRACE_KIND(name, theirs) \
  GPUMEMTRACE_SAME(ours::Kind::name, CUPTI_ACTIVITY_KIND_##theirs)
#define GPUMEMTRACE_PLACE(Ours, name, Theirs, member) \
  static_assert(layouts::Ours::name == offsetof(CUpti_Activity##Theirs, member))

GPUMEMTRACE_SAME(ours::kSuccess, CUPTI_SUCCESS);
GPUMEMTRACE_SAME(ours::kInvalidParameter, CUPTI_ERROR_INVALID_PARAMETER);
GPUMEMTRACE_SAME(ours::kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
GPUMEMTRACE_SAME(ours::kNotInitialized, CUPTI_ERROR_NOT_INITIALIZED);
GPUMEMTRACE_SAME(ours::kNotSupported, CUPTI_ERROR_NOT_SUPPORTED);
GPUMEMTRACE_SAME(ours::kMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
GPUMEMTRACE_SAME(ours::kDeviceBufferSize, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE);
GPUMEMTRACE_SAME(ours::kDeviceBufferPreAllocate,
                 CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE);

GPUMEMTRACE_KIND(kMemcpy, MEMCPY);
GPUMEMTRACE_KIND(kMemset, MEMSET);
GPUMEMTRACE_KIND(kKernel, KERNEL);
GPUMEMTRACE_KIND(kDriver, DRIVER);
GPUMEMTRACE_KIND(kRuntime, RUNTIME);
GPUMEMTRACE_KIND(kConcurrentKernel, CONCURRENT_KERNEL);
GPUMEMTRACE_KIND(kOverhead, OVERHEAD);
GPUMEMTRACE_KIND(kMemcpy2, MEMCPY2);
GPUMEMTRACE_KIND(kUnifiedMemoryCounter, UNIFIED_MEMORY_COUNTER);
GPUMEMTRACE_KIND(kMemory2, MEMORY2);
GPUMEMTRACE_KIND(kMemoryPool, MEMORY_POOL);

GPUMEMTRACE_SAME(ours::kAllDevices,
                 CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES);
GPUMEMTRACE_SAME(ours::kHostToDeviceBytes,
                 CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD);
GPUMEMTRACE_SAME(ours::kDeviceToHostBytes,
                 CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH);
GPUMEMTRACE_SAME(ours::kHostFaults,
                 CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT);
GPUMEMTRACE_SAME(ours::kDeviceFaults, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT);
static_assert(sizeof(ours::ManagedCounterConfig) ==
              sizeof(CUpti_ActivityUnifiedMemoryCounterConfig));

#define GPUMEMTRACE_COPY(Ours, Theirs)                        \
  GPUMEMTRACE_PLACE(Ours, kCopyKind, Theirs, copyKind);       \
  GPUMEMTRACE_PLACE(Ours, kSourceKind, Theirs, srcKind);      \
  GPUMEMTRACE_PLACE(Ours, kDestinationKind, Theirs, dstKind); \
  GPUMEMTRACE_PLACE(Ours, kFlags, Theirs, flags);             \
  GPUMEMTRACE_PLACE(Ours, kBytesCopied, Theirs, bytes);       \
  GPUMEMTRACE_WORK(Ours, Theirs)
#define GPUMEMTRACE_WORK(Ours, Theirs)                          \
  GPUMEMTRACE_PLACE(Ours, kStart, Theirs, start);               \
  GPUMEMTRACE_PLACE(Ours, kEnd, Theirs, end);                   \
  GPUMEMTRACE_PLACE(Ours, kDevice, Theirs, deviceId);           \
  GPUMEMTRACE_PLACE(Ours, kContext, Theirs, contextId);         \
  GPUMEMTRACE_PLACE(Ours, kStream, Theirs, streamId);           \
  GPUMEMTRACE_PLACE(Ours, kCorrelation, Theirs, correlationId); \
  GPUMEMTRACE_PLACE(Ours, kGraphNode, Theirs, graphNodeId);     \
  static_assert(layouts::Ours::kBytes <= sizeof(CUpti_Activity##Theirs))

// Checks every generation of a record that a supported CUPTI makes, from 11.8's on.
GPUMEMTRACE_COPY(Memcpy, Memcpy5);
GPUMEMTRACE_COPY(MemcpyPeer, MemcpyPtoP4);
GPUMEMTRACE_PLACE(MemcpyPeer, kSourceDevice, MemcpyPtoP4, srcDeviceId);
GPUMEMTRACE_PLACE(MemcpyPeer, kDestinationDevice, MemcpyPtoP4, dstDeviceId);
#if CUPTI_API_VERSION >= 26
GPUMEMTRACE_COPY(Memcpy, Memcpy6);
GPUMEMTRACE_PLACE(Memcpy, kCopyCount, Memcpy6, copyCount);
#endif

#define GPUMEMTRACE_SET(Theirs)                        \
  GPUMEMTRACE_WORK(Memset, Theirs);                    \
  GPUMEMTRACE_PLACE(Memset, kValue, Theirs, value);    \
  GPUMEMTRACE_PLACE(Memset, kBytesSet, Theirs, bytes); \
  GPUMEMTRACE_PLACE(Memset, kMemoryKind, Theirs, memoryKind)
GPUMEMTRACE_SET(Memset4);

GPUMEMTRACE_WORK(Kernel, Kernel8);
#if CUPTI_API_VERSION >= 19
GPUMEMTRACE_WORK(Kernel, Kernel9);
#endif

#define GPUMEMTRACE_MEMORY(Theirs)                                               \
  GPUMEMTRACE_PLACE(Memory, kOperation, Theirs, memoryOperationType);            \
  GPUMEMTRACE_PLACE(Memory, kMemoryKind, Theirs, memoryKind);                    \
  GPUMEMTRACE_PLACE(Memory, kCorrelation, Theirs, correlationId);                \
  GPUMEMTRACE_PLACE(Memory, kAddress, Theirs, address);                          \
  GPUMEMTRACE_PLACE(Memory, kBytesAllocated, Theirs, bytes);                     \
  GPUMEMTRACE_PLACE(Memory, kTimestamp, Theirs, timestamp);                      \
  GPUMEMTRACE_PLACE(Memory, kDevice, Theirs, deviceId);                          \
  GPUMEMTRACE_PLACE(Memory, kContext, Theirs, contextId);                        \
  GPUMEMTRACE_PLACE(Memory, kStream, Theirs, streamId);                          \
  GPUMEMTRACE_PLACE(Memory, kIsAsynchronous, Theirs, isAsync);                   \
  GPUMEMTRACE_PLACE(Memory, kPoolType, Theirs, memoryPoolConfig.memoryPoolType); \
  GPUMEMTRACE_PLACE(Memory, kPool, Theirs, memoryPoolConfig.address);            \
  static_assert(layouts::Memory::kBytes <= sizeof(CUpti_Activity##Theirs))
GPUMEMTRACE_MEMORY(Memory3);
#if CUPTI_API_VERSION >= 24
GPUMEMTRACE_MEMORY(Memory4);
#endif

#define GPUMEMTRACE_POOL(Theirs)                                              \
  GPUMEMTRACE_PLACE(MemoryPool, kOperation, Theirs, memoryPoolOperationType); \
  GPUMEMTRACE_PLACE(MemoryPool, kPoolType, Theirs, memoryPoolType);           \
  GPUMEMTRACE_PLACE(MemoryPool, kCorrelation, Theirs, correlationId);         \
  GPUMEMTRACE_PLACE(MemoryPool, kDevice, Theirs, deviceId);                   \
  GPUMEMTRACE_PLACE(MemoryPool, kPool, Theirs, address);                      \
  GPUMEMTRACE_PLACE(MemoryPool, kReservedBytes, Theirs, size);                \
  GPUMEMTRACE_PLACE(MemoryPool, kReleaseThreshold, Theirs, releaseThreshold); \
  GPUMEMTRACE_PLACE(MemoryPool, kTimestamp, Theirs, timestamp);               \
  GPUMEMTRACE_PLACE(MemoryPool, kUsedBytes, Theirs, utilizedSize);            \
  static_assert(layouts::MemoryPool::kBytes <= sizeof(CUpti_Activity##Theirs))
GPUMEMTRACE_POOL(MemoryPool2);
#if CUPTI_API_VERSION >= 130000
GPUMEMTRACE_WORK(Kernel, Kernel10);
GPUMEMTRACE_POOL(MemoryPool3);
#endif
#if CUPTI_API_VERSION >= 130400
GPUMEMTRACE_COPY(Memcpy, Memcpy7);
GPUMEMTRACE_PLACE(Memcpy, kCopyCount, Memcpy7, copyCount);
GPUMEMTRACE_SET(Memset5);
GPUMEMTRACE_WORK(Kernel, Kernel13);
#endif

GPUMEMTRACE_PLACE(Call, kFunction, API, cbid);
GPUMEMTRACE_PLACE(Call, kStart, API, start);
GPUMEMTRACE_PLACE(Call, kEnd, API, end);
GPUMEMTRACE_PLACE(Call, kThread, API, threadId);
GPUMEMTRACE_PLACE(Call, kCorrelation, API, correlationId);
GPUMEMTRACE_PLACE(Call, kReturned, API, returnValue);
static_assert(layouts::Call::kBytes == sizeof(CUpti_ActivityAPI));

#define GPUMEMTRACE_COUNTER(Theirs)                                 \
  GPUMEMTRACE_PLACE(ManagedCounter, kCounter, Theirs, counterKind); \
  GPUMEMTRACE_PLACE(ManagedCounter, kValue, Theirs, value);         \
  GPUMEMTRACE_PLACE(ManagedCounter, kStart, Theirs, start);         \
  GPUMEMTRACE_PLACE(ManagedCounter, kEnd, Theirs, end);             \
  GPUMEMTRACE_PLACE(ManagedCounter, kAddress, Theirs, address);     \
  GPUMEMTRACE_PLACE(ManagedCounter, kSource, Theirs, srcId);        \
  GPUMEMTRACE_PLACE(ManagedCounter, kDestination, Theirs, dstId);   \
  GPUMEMTRACE_PLACE(ManagedCounter, kFlags, Theirs, flags);         \
  static_assert(layouts::ManagedCounter::kBytes <= sizeof(CUpti_Activity##Theirs))
GPUMEMTRACE_COUNTER(UnifiedMemoryCounter2);
#if CUPTI_API_VERSION >= 26
GPUMEMTRACE_COUNTER(UnifiedMemoryCounter3);
#endif

#define GPUMEMTRACE_OVERHEAD(Theirs)                            \
  GPUMEMTRACE_PLACE(Overhead, kOverhead, Theirs, overheadKind); \
  GPUMEMTRACE_PLACE(Overhead, kStart, Theirs, start);           \
  GPUMEMTRACE_PLACE(Overhead, kEnd, Theirs, end);               \
  static_assert(layouts::Overhead::kBytes <= sizeof(CUpti_Activity##Theirs))
GPUMEMTRACE_OVERHEAD(Overhead);
#if CUPTI_API_VERSION >= 24
GPUMEMTRACE_OVERHEAD(Overhead2);
GPUMEMTRACE_OVERHEAD(Overhead3);
#endif

// Checks that every row of copy_functions.inc has the id that CUPTI's headers give its function.
#define GPUMEMTRACE_CUPTI_FUNCTION(domain, id, name) \
  static_assert(GPUMEMTRACE_ID_##domain(TRACE_CBID_##name) == (id));
#define GPUMEMTRACE_ID_kRuntime(name) CUPTI_RUNTIME_##name
#define GPUMEMTRACE_ID_kDriver(name) CUPTI_DRIVER_##name
#if CUPTI_API_VERSION >= 130000
#include "cupti/copy_functions.inc"
#endif
static_assert(CUPTI_RUNTIME_TRACE_CBID_SIZE <= ours::kMostFunctions);
static_assert(CUPTI_DRIVER_TRACE_CBID_SIZE <= ours::kMostFunctions);

// Checks that our declarations pass arguments as CUPTI's do: enumerations are numbers of 32 bits,
// pointers to structures are pointers.
template <class Ours, class Theirs>
constexpr bool passes_alike() {
  if (std::is_pointer_v<Ours>) return std::is_pointer_v<Theirs>;
  return sizeof(Ours) == sizeof(Theirs) && !std::is_pointer_v<Theirs>;
}
template <class Ours, class Theirs>
struct SameFunction;
template <class... Ours, class... Theirs>
struct SameFunction<int(Ours...), CUptiResult(Theirs...)> {
  static constexpr bool kCount = sizeof...(Ours) == sizeof...(Theirs);
  static_assert(kCount);
  static constexpr bool kValue = (passes_alike<Ours, Theirs>() && ...);
};
namespace declared {
using namespace gpumemtrace::cupti;
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) \
  static_assert(SameFunction<Result parameters, decltype(::symbol)>::kValue, #symbol);
#include "cupti/functions.def"
}  // namespace declared

}  // namespace
#endif
