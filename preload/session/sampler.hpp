// SPDX-License-Identifier: Apache-2.0
// The driver's own numbers: free memory of each device, the limits of contexts, the bytes of the
// pools, and NVML's numbers of devices and their processes. Background thread only, but for
// load_sampler(). Calls about contexts and pools are made between begin_sample() and end_sample()
// of tracking.hpp, in relaxed capture mode, so that they neither meet a context that is being
// destroyed nor break a stream capture. NVML, which may take long, is asked before or after.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

class CallGuard;

// Looks up the functions of the driver and of NVML that samples need. Called for a new recording,
// by the thread that starts it.
void load_sampler() noexcept;

enum class Sampled : std::uint8_t {
  kDone,
  kNothingToAsk,  // no context yet
  kLater,         // a context is being destroyed
};
// Writes one MemorySample for each device and source, NVML's list of processes for each device, one
// PoolSample for each pool, and ContextLimits if they changed.
[[nodiscard]] Sampled record_samples(const CallGuard& guard) noexcept;

// Called when the process ends. If NVML gives the devices' numbers within 20 ms, CUDA is asked for
// pools alone, because only CUDA has their high-water marks. If not, CUDA is asked as in
// record_samples().
void record_last_samples(const CallGuard& guard) noexcept;

// The driver's version in the form of cuDriverGetVersion: 13000 is CUDA 13.0. 0 if the driver does
// not say.
[[nodiscard]] int driver_version() noexcept;

// Writes a Device record for each device. Called once the driver is initialised.
void record_devices(const CallGuard& guard) noexcept;

}  // namespace gpumemtrace::preload
