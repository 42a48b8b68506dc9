// SPDX-License-Identifier: Apache-2.0
// What growth and collections of cycles are summed by.
#pragma once

#include <compare>
#include <cstdint>

#include "analyzer/report/report_context.hpp"

namespace gpumemtrace::analyzer {

// A place of the program that asks for memory, on one device and level. Whoever sums by it chooses
// one of the call stacks there: that of the identity is not compared.
struct PlaceKey {
  std::int32_t device = kHostDevice;
  Level level = Level::kDriver;
  Identity identity;
  friend auto operator<=>(const PlaceKey&, const PlaceKey&) = default;
};

}  // namespace gpumemtrace::analyzer
