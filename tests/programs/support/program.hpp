// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tests/programs/support/driver.hpp"

// Shared by most programs: start, allocate with the truth kept, end.

namespace gpumemtrace::programs {

// The exit code of a program that this machine cannot run, as CTest and automake understand it.
inline constexpr int kSkipped = 77;

// Prints the reason on standard output and ends the program with kSkipped.
[[noreturn]] void skip_program(const std::string& reason);
// Notes that a part was left out, and goes on.
void skip_part(const std::string& reason);
// Ends the program with a message when something is not as it must be.
void require(bool condition, const char* what);

// cuInit and the primary context of a device, current to the calling thread.
abi::CUcontext start_on_device(abi::CUdevice device = 0);
int device_count();
int device_attribute(abi::CUdevice_attribute attribute, abi::CUdevice device = 0);

// cuMemAlloc_v2 and cuMemFree_v2 with their truth.
abi::CUdeviceptr allocate_device(std::size_t bytes);
void free_device(abi::CUdeviceptr address, std::size_t bytes);

// Prints {"truth": {...}}; the last thing that a program does.
int finish(const std::string& program);

}  // namespace gpumemtrace::programs
