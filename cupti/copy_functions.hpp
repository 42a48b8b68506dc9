// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA whose API records are collected, to find the call that made a copy.
#pragma once

#include <cstdint>

#include "cupti/abi.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

struct CopyFunction {
  trace::ActivityDomain domain;
  CallbackId id;
};

inline constexpr CopyFunction kCopyFunctions[] = {
#define GPUMEMTRACE_CUPTI_FUNCTION(domain, id, name) {trace::ActivityDomain::domain, id},
#include "cupti/copy_functions.inc"
#undef GPUMEMTRACE_CUPTI_FUNCTION
};

// The most functions that are distinguished here; CUDA 13.0 has 525 and 803.
inline constexpr CallbackId kMostFunctions = 1024;

// One bit a function.
class FunctionSet {
 public:
  constexpr FunctionSet() noexcept = default;
  constexpr explicit FunctionSet(trace::ActivityDomain domain) noexcept {
    for (const CopyFunction& function : kCopyFunctions) {
      if (function.domain == domain) words_[function.id / 64] |= 1ull << (function.id % 64);
    }
  }
  [[nodiscard]] constexpr bool contains(CallbackId id) const noexcept {
    return id < kMostFunctions && (words_[id / 64] >> (id % 64) & 1) != 0;
  }

 private:
  std::uint64_t words_[kMostFunctions / 64] = {};
};

inline constexpr FunctionSet kDriverCopies{trace::ActivityDomain::kDriver};
inline constexpr FunctionSet kRuntimeCopies{trace::ActivityDomain::kRuntime};

}  // namespace gpumemtrace::cupti
