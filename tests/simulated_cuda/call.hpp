// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tests/simulated_cuda/activity.hpp"
#include "tests/simulated_cuda/cuda_abi.hpp"

// The code that every exported driver function runs around its implementation: checks, injected
// failures, the driver's lock, the call log.

namespace gpumemtrace::cuda_abi::simulated {

// Conditions that must hold for a driver function to run; each includes the ones before.
enum class Needs {
  kNothing,
  kDriver,         // cuInit was called
  kContext,        // a context is current
  kSynchronising,  // no stream capture forbids the call
};

// One exported symbol of the driver.
struct EntryPoint {
  const char* symbol;
  Needs needs;
  bool per_thread_stream;  // _ptds or _ptsz: stream 0 is the thread's own
  std::atomic<std::uint64_t> calls{0};
};

// Counts the call of an exported function. Returns the failure that the environment asks for, or
// CUDA_SUCCESS.
CUresult begin_call(EntryPoint& entry);
// Returns the error of the first condition that fails: no cuInit, no context, a sticky error, a
// stream capture.
CUresult check_needs(const EntryPoint& entry);
// Runs the host functions that defer_host_function() has put off because the lock was held.
void run_deferred_host_functions();
void defer_host_function(CUhostFn function, void* argument);

// Holds the driver's lock while it lives.
class DriverLock {
 public:
  DriverLock();
  ~DriverLock();
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;
};

// These functions write one line for a driver call into the call log.
bool call_log_wanted();
void append_argument(std::string* line, std::uint64_t value);
void append_argument(std::string* line, const char* text);
void write_call_log(const EntryPoint& entry, const std::string& arguments, CUresult result);

// True if a driver function stores a number, not text, through a pointer to `Target`.
template <typename Target>
constexpr bool kIsOutputNumber =
    std::is_integral_v<Target> && !std::is_const_v<Target> && !std::is_same_v<Target, char> &&
    !std::is_same_v<Target, unsigned char>;

template <typename T>
void describe_argument(std::string* line, const T& value, CUresult result) {
  if constexpr (std::is_same_v<T, const char*>) {
    append_argument(line, value == nullptr ? "null" : value);
  } else if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    if (value == nullptr) {
      append_argument(line, "null");
    } else if constexpr (kIsOutputNumber<Target>) {
      if (result != CUDA_SUCCESS) return append_argument(line, "pointer");
      line->push_back('&');
      append_argument(line, static_cast<std::uint64_t>(*value));
    } else {
      append_argument(line, "pointer");
    }
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    append_argument(line, static_cast<std::uint64_t>(value));
  } else {
    append_argument(line, "struct");
  }
}

template <typename T>
T with_per_thread_stream(const EntryPoint& entry, T value) {
  if constexpr (std::is_same_v<T, CUstream>) {
    if (entry.per_thread_stream && value == nullptr) {
      return reinterpret_cast<CUstream>(CU_STREAM_PER_THREAD);
    }
  }
  return value;
}

template <typename Implementation, typename... Arguments>
CUresult call(EntryPoint& entry, Implementation implementation, Arguments... arguments) {
  announce_call_begin(entry.symbol);
  CUresult result = begin_call(entry);
  if (result == CUDA_SUCCESS) {
    const DriverLock lock;
    result = check_needs(entry);
    if (result == CUDA_SUCCESS) {
      result = implementation(with_per_thread_stream(entry, arguments)...);
    }
  }
  announce_call_end(entry.symbol, result);
  run_deferred_host_functions();
  if (call_log_wanted()) {
    std::string line;
    (describe_argument(&line, arguments, result), ...);
    write_call_log(entry, line, result);
  }
  return result;
}

}  // namespace gpumemtrace::cuda_abi::simulated
