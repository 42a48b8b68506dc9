// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tests/programs/support/driver.hpp"

// Functions that most programs share: start, allocate and free with entries in the truth, end.

namespace gpumemtrace::programs {

// The exit code of a program that this machine cannot run; CTest and automake take it as "skipped".
inline constexpr int kSkipped = 77;

// Prints the reason on standard output and ends the program with kSkipped.
[[noreturn]] void skip_program(const std::string& reason);
// Adds a note to the truth that a part of the program was left out, and continues.
void skip_part(const std::string& reason);
// Ends the program with a message if `condition` is false.
void require(bool condition, const char* what);

// Calls cuInit and makes the primary context of a device current to the calling thread.
abi::CUcontext start_on_device(abi::CUdevice device = 0);
int device_count();
int device_attribute(abi::CUdevice_attribute attribute, abi::CUdevice device = 0);

// Call cuMemAlloc_v2 and cuMemFree_v2 and enter them in the truth.
abi::CUdeviceptr allocate_device(std::size_t bytes);
void free_device(abi::CUdeviceptr address, std::size_t bytes);

// Prints {"truth": {...}} as the program's last output, and returns the exit code 0.
int finish(const std::string& program);

}  // namespace gpumemtrace::programs
