// SPDX-License-Identifier: Apache-2.0
// The framework's blocks as they come and go, and the segments that they show.
#pragma once

#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class FrameworkBlocks {
 public:
  explicit FrameworkBlocks(ProcessMemory& memory) : memory_(memory) {}

  // The framework's own block on a GPU; others are none of the process's device memory.
  [[nodiscard]] static bool is_on_device(const trace::Block& block) {
    return is_cuda(block.device_type) && block.address != 0;
  }
  [[nodiscard]] static bool is_cuda(std::int8_t device_type) {
    constexpr std::int8_t kCudaDeviceType = 1;  // c10::DeviceType::CUDA
    return device_type == kCudaDeviceType;
  }

  // Returns the group that the block counts in.
  std::uint32_t add(const trace::Block& block, Phase phase);
  void remove(const trace::Block& block);

 private:
  ProcessMemory& memory_;
};

}  // namespace gpumemtrace::analyzer
