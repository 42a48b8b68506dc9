// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace gpumemtrace::cuda_abi::simulated {

// A failure to simulate: call number `call` (from 1) of the exported symbol returns `result`.
struct InjectedFailure {
  std::string symbol;
  std::uint64_t call = 0;
  CUresult result = CUDA_SUCCESS;
  bool sticky = false;  // afterwards every call that needs a context returns `result`
};

// The features that the simulated NVML has.
enum class NvmlMode {
  kAbsent,
  kFull,
  kNoProcessBytes,  // NVML lists processes without their bytes
  kOtherNamespace,  // NVML gives process ids of a container's host
  kNoMemory,        // memory is "not supported", as on chips that share the host's
  kSlow,            // NVML answers a query of memory after a minute
};

// The environment variables of the simulated driver; README.md lists them.
struct Settings {
  int device_count = 1;
  std::uint64_t device_bytes = std::uint64_t{8} << 30;
  std::uint64_t context_bytes = std::uint64_t{256} << 20;
  int driver_version = 13000;
  std::string card_path;
  std::uint64_t other_bytes = 0;
  std::uint64_t reserved_bytes = std::uint64_t{480} << 20;
  NvmlMode nvml = NvmlMode::kAbsent;
  std::uint64_t graph_bytes = 0;
  bool limits_take_memory = false;
  std::string call_log_path;
  std::vector<InjectedFailure> failures;
};

// Reads the environment. A malformed value is reported on standard error, and its default is used.
Settings read_settings();

}  // namespace gpumemtrace::cuda_abi::simulated
