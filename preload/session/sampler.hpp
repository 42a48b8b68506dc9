// SPDX-License-Identifier: Apache-2.0
// The driver's own numbers: free memory of each device, what NVML says this process and others use,
// and how full the pools are. Background thread only, but for load_sampler(); every question is
// asked through the gate of tracking.hpp, in relaxed capture mode, so that it can neither meet a
// context that is being destroyed nor break a stream capture.
#pragma once

namespace gpumemtrace::preload {

class CallGuard;

// Looks up what the questions need, for a new recording. The thread that starts it.
void load_sampler() noexcept;

// Writes one MemorySample a device and source, and one PoolSample a pool.
void record_samples(const CallGuard& guard) noexcept;

// As cuDriverGetVersion says it: 13000 is CUDA 13.0. 0 where the driver does not say.
[[nodiscard]] int driver_version() noexcept;

// Writes a Device record for each device; once the driver is initialised.
void record_devices(const CallGuard& guard) noexcept;

}  // namespace gpumemtrace::preload
