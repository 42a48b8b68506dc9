// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tests/simulated_cuda/activity.hpp"
#include "tests/simulated_cuda/cuda_abi.hpp"

// Every exported function's frame around its implementation: checks, injected failures, the
// driver's lock, the call log.

namespace gpumemtrace::cuda_abi::simulated {

// The conditions of a function.
enum class Needs {
  kNothing,
  kDriver,         // cuInit
  kContext,        // and a current context
  kSynchronising,  // and no stream capture in the way
};

// One exported symbol.
struct EntryPoint {
  const char* symbol;
  Needs needs;
  bool per_thread_stream;  // _ptds or _ptsz: stream 0 is the thread's own
  std::atomic<std::uint64_t> calls{0};
};

// Counts the call. Returns the failure that the environment asks for, or CUDA_SUCCESS.
CUresult begin_call(EntryPoint& entry);
// The obstacle to the call: no cuInit, no context, a sticky error, a stream capture.
CUresult check_needs(const EntryPoint& entry);
// Runs host functions that the call put off until the lock is free.
void run_deferred_host_functions();
void defer_host_function(CUhostFn function, void* argument);

// Holds the driver's lock.
class DriverLock {
 public:
  DriverLock();
  ~DriverLock();
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;
};

// The line of a call in the log.
bool call_log_wanted();
void append_argument(std::string* line, std::uint64_t value);
void append_argument(std::string* line, const char* text);
void write_call_log(const EntryPoint& entry, const std::string& arguments, CUresult result);

// A call stores a number, no text, behind a pointer of this kind.
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
