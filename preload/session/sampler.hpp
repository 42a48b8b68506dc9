// SPDX-License-Identifier: Apache-2.0
// The driver's own numbers: free memory of each device, the limits of contexts, how full the pools
// are, and what NVML says of devices and their processes. Background thread only, but for
// load_sampler(). Every question to CUDA is asked through the gate of tracking.hpp, in relaxed
// capture mode, so that it can neither meet a context that is being destroyed nor break a stream
// capture. NVML is asked outside of the gate: it may take its time.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

class CallGuard;

// Looks up what the questions need, for a new recording. The thread that starts it.
void load_sampler() noexcept;

enum class Sampled : std::uint8_t {
  kDone,
  kNothingToAsk,  // no context yet
  kLater,         // a context is being destroyed
};
// Writes one MemorySample a device and source, NVML's list of processes a device, one PoolSample a
// pool, and ContextLimits where they changed.
[[nodiscard]] Sampled record_samples(const CallGuard& guard) noexcept;

// The process ends: as far as NVML tells the devices' numbers within 20 ms, CUDA is asked about
// pools alone, whose highest marks nothing else has. Without NVML it is asked as ever.
void record_last_samples(const CallGuard& guard) noexcept;

// As cuDriverGetVersion says it: 13000 is CUDA 13.0. 0 where the driver does not say.
[[nodiscard]] int driver_version() noexcept;

// Writes a Device record for each device; once the driver is initialised.
void record_devices(const CallGuard& guard) noexcept;

}  // namespace gpumemtrace::preload
