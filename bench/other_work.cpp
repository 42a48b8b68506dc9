// SPDX-License-Identifier: Apache-2.0
#include "bench/other_work.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

namespace gpumemtrace::bench {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kFunctions = 4096;

// Each of these functions has its own four cache lines and two branches that depend on the value.
template <std::size_t kIndex>
[[gnu::noinline, gnu::aligned(256)]] std::uint64_t step(std::uint64_t value) {
  if ((value * (2 * kIndex + 1) & 64) != 0) value ^= value << (kIndex % 13 + 1);
  if ((value >> (kIndex % 61) & 1) != 0) value += kIndex * 77;
  return value + 1;
}

using Step = std::uint64_t (*)(std::uint64_t);
template <std::size_t... kIndex>
constexpr std::array<Step, sizeof...(kIndex)> steps(std::index_sequence<kIndex...>) {
  return {step<kIndex>...};
}
constexpr auto kSteps = steps(std::make_index_sequence<kFunctions>());

}  // namespace

OtherWork::OtherWork() : memory_(kBytes), lines_(kBytes / kLineBytes), functions_(kCalls) {
  std::mt19937 random(1);
  std::iota(lines_.begin(), lines_.end(), 0u);
  std::shuffle(lines_.begin(), lines_.end(), random);
  for (std::uint16_t& function : functions_) {
    function = static_cast<std::uint16_t>(random() % kFunctions);
  }
}

void OtherWork::run() {
  for (const std::uint32_t line : lines_) {
    std::byte& byte = memory_[line * kLineBytes];
    value_ += std::to_integer<std::uint64_t>(byte);
    byte = static_cast<std::byte>(value_);
  }
  for (const std::uint16_t function : functions_) value_ = kSteps[function](value_);
}

}  // namespace gpumemtrace::bench
