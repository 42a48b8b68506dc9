// SPDX-License-Identifier: Apache-2.0
// The ledger of the program all_runtime_calls: all bytes that calls of the CUDA runtime allocated,
// freed or copied.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "truth.hpp"

namespace gpumemtrace::gpu_tests {

enum class Direction { kHostToDevice, kDeviceToHost, kDeviceToDevice };

inline const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::kHostToDevice:
      return "host_to_device";
    case Direction::kDeviceToHost:
      return "device_to_host";
    default:
      return "device_to_device";
  }
}

// Each function takes the result of the runtime call that it enters, prints one line and enters
// only calls that succeeded, so a function that a device lacks changes neither output nor
// comparison.
class RuntimeLedger {
 public:
  bool call(const char* function, cudaError_t result) {
    std::printf("%s: %s\n", function, cudaGetErrorName(result));
    if (result != cudaSuccess) cudaGetLastError();
    return result == cudaSuccess;
  }

  bool allocation(const char* function, const char* kind, std::uint64_t bytes, cudaError_t result) {
    if (!call(function, result)) return false;
    kinds_[kind].allocate(bytes);
    return true;
  }

  void free(const char* function, const char* kind, std::uint64_t bytes, cudaError_t result) {
    if (call(function, result)) kinds_[kind].free(bytes);
  }

  void copy(const char* function, Direction direction, std::uint64_t bytes, cudaError_t result) {
    if (!call(function, result)) return;
    copies_[direction].add(bytes);
    copies_by_function_[function].add(bytes);
  }

  // For this copy the runtime itself allocates and frees a device buffer of the copy's size.
  void staged_copy(const char* function, Direction direction, std::uint64_t bytes,
                   cudaError_t result) {
    copy(function, direction, bytes, result);
    if (result == cudaSuccess) staged_.add(bytes);
  }

  void set(const char* function, std::uint64_t bytes, cudaError_t result) {
    if (!call(function, result)) return;
    sets_.add(bytes);
  }

  void failed_device_allocation() { ++failed_device_; }

  void state(Truth& truth) const {
    static const std::map<std::string, std::string> kLevels = {
        {"device", "driver"},   {"pitched", "driver"}, {"array", "driver"},    {"graph", "driver"},
        {"managed", "managed"}, {"pinned", "host"},    {"registered", "host"},
    };
    for (const auto& [kind, level] : kLevels) {
      const auto found = kinds_.find(kind);
      if (found == kinds_.end()) continue;
      truth.usage(level, kind, found->second, kind == "device" ? staged_ : Transfers{});
    }
    state_pools(truth);
    truth.usage_field("driver", "device", "failed", failed_device_);
    state_transfers(truth);
  }

  // Checks for a run with CUPTI's records: each copy's record was joined to its call, and the
  // joined bytes are the call's.
  void state_joined(Truth& truth) const {
    for (const auto& [direction, sum] : copies_) {
      const bool staged = direction == Direction::kDeviceToDevice && staged_.bytes != 0;
      truth.check(std::string(name_of(direction)) + " joined bytes", "transfers.by_kind", sum.bytes,
                  std::string(R"(,"where":{"direction":")") + name_of(direction) +
                      R"("},"field":"joined_bytes")" +
                      (staged ? Truth::staged_allowance(staged_.bytes) : ""));
    }
    truth.check("nothing unjoined", "transfers", 0, R"(,"field":"unjoined")");
    truth.check("inferred", "processes", 0, R"(,"field":"cupti.join.joined_inferred")");
  }

 private:
  // Adds up the pools, because the checks add up the report's rows, one for each pool.
  void state_pools(Truth& truth) const {
    const KindLedger first = kind("default pool");
    const KindLedger second = kind("own pool");
    const std::map<std::string, std::uint64_t> sums = {
        {"allocations", first.allocations() + second.allocations()},
        {"frees", first.frees() + second.frees()},
        {"allocated_bytes_total", first.total_bytes() + second.total_bytes()},
        {"peak_bytes", first.peak_bytes() + second.peak_bytes()},
        {"live_bytes_at_end", first.live_bytes() + second.live_bytes()},
        {"live_count_at_end", first.live_count() + second.live_count()},
    };
    for (const auto& [field, value] : sums) {
      truth.usage_field("pool", "stream_ordered", field, value);
    }
  }

  void state_transfers(Truth& truth) const {
    std::uint64_t all_bytes = 0;
    for (const auto& [direction, sum] : copies_) {
      const std::string where =
          std::string(R"(,"where":{"direction":")") + name_of(direction) + "\"}";
      const std::string name = std::string(name_of(direction)) + " ";
      const bool staged = direction == Direction::kDeviceToDevice && staged_.bytes != 0;
      truth.check(
          name + "bytes", "transfers.by_kind", sum.bytes,
          where + R"(,"field":"bytes")" + (staged ? Truth::staged_allowance(staged_.bytes) : ""));
      truth.check(name + "count", "transfers.by_kind", sum.count,
                  where + R"(,"field":"count","allow":[{"reason":"split_by_runtime","units":)" +
                      std::to_string(sum.count) + "}]");
      all_bytes += sum.bytes;
    }
    for (const auto& [function, sum] : copies_by_function_) {
      truth.check("bytes of " + function, "transfers.by_kind", sum.bytes,
                  R"(,"where":{"api":")" + function +
                      R"("},"field":"bytes","allow":[{"reason":"merged_runtime_name","units":)" +
                      std::to_string(all_bytes) + "}]");
    }
    truth.check("sets bytes", "transfers.sets", sets_.bytes, R"(,"field":"bytes")");
    truth.check("sets count", "transfers.sets", sets_.count,
                R"(,"field":"count","allow":[{"reason":"split_by_runtime","units":)" +
                    std::to_string(sets_.count) + "}]");
  }

  KindLedger kind(const std::string& name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? KindLedger() : found->second;
  }

  std::map<std::string, KindLedger> kinds_;
  std::map<Direction, Transfers> copies_;
  std::map<std::string, Transfers> copies_by_function_;
  Transfers sets_;
  Transfers staged_;
  std::uint64_t failed_device_ = 0;
};

}  // namespace gpumemtrace::gpu_tests
