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
  kMemcpy2 = 22,  // between two devices
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
inline constexpr std::uint32_t kAllDevices = 2;  // a scope
inline constexpr std::uint32_t kHostToDeviceBytes = 1;
inline constexpr std::uint32_t kDeviceToHostBytes = 2;
inline constexpr std::uint32_t kHostFaults = 3;
inline constexpr std::uint32_t kDeviceFaults = 4;

// Versions by cuptiGetVersion().
inline constexpr std::uint32_t kOldestVersion = 18;  // CUDA 11.8
inline constexpr std::uint32_t kVersionThatTakesNoBuffer =
    27;  // CUDA 12.9: before, NULL crashes it

}  // namespace gpumemtrace::cupti
