// SPDX-License-Identifier: Apache-2.0
// CUPTI's Activity API as far as the recorder calls or serves it: types by CUPTI's reference,
// numbers that never change between versions (tests/unit/cupti_abi_check.cpp compares them with
// CUPTI's own headers). Nothing of CUPTI is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::cupti {

using Result = int;  // CUptiResult
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidParameter = 1;
inline constexpr Result kMaxLimitReached = 12;
inline constexpr Result kNotInitialized = 15;
inline constexpr Result kNotSupported = 27;
inline constexpr Result kMultipleSubscribers = 39;

// CUpti_ActivityKind, the kinds that are known here.
enum class Kind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpy2 = 22,  // copies between two devices
  kUnifiedMemoryCounter = 25,
  kMemory2 = 49,
  kMemoryPool = 50,
};

using CallbackId = std::uint32_t;  // CUpti_CallbackId: a function of CUDA, in its domain
using Context = void*;             // CUcontext
using Attribute = int;             // CUpti_ActivityAttribute
inline constexpr Attribute kDeviceBufferSize = 0;
inline constexpr Attribute kDeviceBufferPreAllocate = 6;

using RequestFunction = void(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
using CompleteFunction = void(Context context, std::uint32_t stream, std::uint8_t* buffer,
                              std::size_t bytes, std::size_t valid_bytes);
using TimestampFunction = std::uint64_t();

// CUpti_ActivityUnifiedMemoryCounterConfig
struct ManagedCounterConfig {
  std::uint32_t scope;
  std::uint32_t kind;
  std::uint32_t device;
  std::uint32_t enable;
};
inline constexpr std::uint32_t kAllDevices = 2;  // a value of ManagedCounterConfig::scope
inline constexpr std::uint32_t kHostToDeviceBytes = 1;
inline constexpr std::uint32_t kDeviceToHostBytes = 2;
inline constexpr std::uint32_t kHostFaults = 3;
inline constexpr std::uint32_t kDeviceFaults = 4;

// Versions of CUPTI, as cuptiGetVersion() returns them.
inline constexpr std::uint32_t kOldestVersion = 18;  // CUDA 11.8
inline constexpr std::uint32_t kVersionThatTakesNoBuffer =
    27;  // CUDA 12.9; older versions crash if they get NULL as a buffer

}  // namespace gpumemtrace::cupti

namespace gpumemtrace::cupti::layouts {

// Offsets of the members of CUPTI's activity records, such as CUpti_ActivityMemcpy and its
// successors. Records only grew at their ends; kBytes is the least size of a record, without the
// members that only newer versions have. tests/unit/cupti_abi_check.cpp compares them with
// cupti_activity.h.

// Members that copies and sets share: the time and the place on the device.
struct DeviceWork {
  static constexpr std::size_t kStart = 16;
  static constexpr std::size_t kEnd = 24;
  static constexpr std::size_t kDevice = 32;
  static constexpr std::size_t kContext = 36;
  static constexpr std::size_t kStream = 40;
};

// Members that copies share, within a device or between two.
struct AnyMemcpy : DeviceWork {
  static constexpr std::size_t kCopyKind = 4;
  static constexpr std::size_t kSourceKind = 5;
  static constexpr std::size_t kDestinationKind = 6;
  static constexpr std::size_t kFlags = 7;
  static constexpr std::size_t kBytesCopied = 8;
};

struct Memcpy : AnyMemcpy {
  static constexpr std::size_t kCorrelation = 44;
  static constexpr std::size_t kGraphNode = 64;
  static constexpr std::size_t kBytes = 80;
  static constexpr std::size_t kCopyCount = 88;
  static constexpr std::uint32_t kVersionWithCopyCount = 26;  // CUDA 12.8
};

struct MemcpyPeer : AnyMemcpy {
  static constexpr std::size_t kSourceDevice = 44;
  static constexpr std::size_t kDestinationDevice = 52;
  static constexpr std::size_t kCorrelation = 60;
  static constexpr std::size_t kGraphNode = 72;
  static constexpr std::size_t kBytes = 88;
};

struct Memset : DeviceWork {
  static constexpr std::size_t kValue = 4;
  static constexpr std::size_t kBytesSet = 8;
  static constexpr std::size_t kCorrelation = 44;
  static constexpr std::size_t kMemoryKind = 50;
  static constexpr std::size_t kGraphNode = 64;
  static constexpr std::size_t kBytes = 80;
};

struct Memory {
  static constexpr std::size_t kOperation = 4;
  static constexpr std::size_t kMemoryKind = 8;
  static constexpr std::size_t kCorrelation = 12;
  static constexpr std::size_t kAddress = 16;
  static constexpr std::size_t kBytesAllocated = 24;
  static constexpr std::size_t kTimestamp = 32;
  static constexpr std::size_t kDevice = 52;
  static constexpr std::size_t kContext = 56;
  static constexpr std::size_t kStream = 60;
  static constexpr std::size_t kIsAsynchronous = 72;
  static constexpr std::size_t kPoolType = 80;
  static constexpr std::size_t kPool = 88;
  static constexpr std::size_t kBytes = 112;
};

struct MemoryPool {
  static constexpr std::size_t kOperation = 4;
  static constexpr std::size_t kPoolType = 8;
  static constexpr std::size_t kCorrelation = 12;
  static constexpr std::size_t kDevice = 20;
  static constexpr std::size_t kPool = 32;
  static constexpr std::size_t kReservedBytes = 40;
  static constexpr std::size_t kReleaseThreshold = 48;
  static constexpr std::size_t kTimestamp = 56;
  static constexpr std::size_t kUsedBytes = 64;
  static constexpr std::size_t kBytes = 72;
};

struct Call {
  static constexpr std::size_t kFunction = 4;
  static constexpr std::size_t kStart = 8;
  static constexpr std::size_t kEnd = 16;
  static constexpr std::size_t kThread = 28;
  static constexpr std::size_t kCorrelation = 32;
  static constexpr std::size_t kReturned = 36;
  static constexpr std::size_t kBytes = 40;
};

struct ManagedCounter {
  static constexpr std::size_t kCounter = 4;
  static constexpr std::size_t kValue = 8;
  static constexpr std::size_t kStart = 16;
  static constexpr std::size_t kEnd = 24;
  static constexpr std::size_t kAddress = 32;
  static constexpr std::size_t kSource = 40;
  static constexpr std::size_t kDestination = 44;
  static constexpr std::size_t kFlags = 56;
  static constexpr std::size_t kBytes = 64;
};

struct Overhead {
  static constexpr std::size_t kOverhead = 4;
  static constexpr std::size_t kStart = 24;
  static constexpr std::size_t kEnd = 32;
  static constexpr std::size_t kBytes = 40;
};

struct Kernel {
  static constexpr std::size_t kStart = 16;
  static constexpr std::size_t kEnd = 24;
  static constexpr std::size_t kDevice = 40;
  static constexpr std::size_t kContext = 44;
  static constexpr std::size_t kStream = 48;
  static constexpr std::size_t kCorrelation = 92;
  static constexpr std::size_t kGraphNode = 144;
  static constexpr std::size_t kBytes = 152;
};

}  // namespace gpumemtrace::cupti::layouts
