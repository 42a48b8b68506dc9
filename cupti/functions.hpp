// SPDX-License-Identifier: Apache-2.0
// The functions of one loaded libcupti, by their names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.hpp"

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

}  // namespace gpumemtrace::cupti
