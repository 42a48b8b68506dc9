// SPDX-License-Identifier: Apache-2.0
// The use of a framework's block, as the program's model knows it.
#pragma once

#include <cstdint>

namespace gpumemtrace::analyzer {

struct LiveAllocation;
struct Lifetime;

// `category` and `confidence` are numbers of the enumerations Category and Confidence
// (analyzer/model/program/categories.hpp), `tensors` is one of TensorNames.
struct BlockUse {
  std::uint8_t category = 0;
  std::uint8_t confidence = 0;
  std::uint32_t tensors = 0;
};

// Tells the use of a block: called once for each, when it is freed or at the end of the trace.
class BlockUses {
 public:
  [[nodiscard]] virtual BlockUse use_of(const LiveAllocation& block,
                                        const Lifetime& life) const = 0;

 protected:
  ~BlockUses() = default;
};

}  // namespace gpumemtrace::analyzer
