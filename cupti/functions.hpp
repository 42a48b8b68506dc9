// SPDX-License-Identifier: Apache-2.0
// The functions of one loaded libcupti, by their names, and the functions of CUDA whose API records
// are collected to find the call that made a copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

// nullptr if this version of CUPTI lacks the function.
struct Functions {
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) Result(*symbol) parameters = nullptr;
#include "cupti/functions.def"

  // True if the functions are there without which nothing can be collected.
  [[nodiscard]] bool complete() const noexcept {
    return cuptiActivityRegisterCallbacks != nullptr && cuptiActivityEnable != nullptr &&
           cuptiActivityDisable != nullptr && cuptiActivityFlushAll != nullptr &&
           cuptiActivityGetNextRecord != nullptr && cuptiGetVersion != nullptr &&
           cuptiGetTimestamp != nullptr;
  }
};

// Fills all members by `find(name)`.
template <class Find>
void load(Functions& functions, Find&& find) noexcept {
#define GPUMEMTRACE_CUPTI_CALLED(symbol, parameters) \
  functions.symbol = reinterpret_cast<decltype(functions.symbol)>(find(#symbol));
#include "cupti/functions.def"
}

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
