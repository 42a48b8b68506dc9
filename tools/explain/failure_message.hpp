// SPDX-License-Identifier: Apache-2.0
// One out-of-memory message: what its text says, and what follows from its numbers.
//
// The wordings are facts of PyTorch's source (c10/cuda/CUDACachingAllocator.cpp since 1.0,
// CUDAMallocAsyncAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp); docs/commands.md lists them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/fields.hpp"

namespace gpumemtrace::tools {

// A number of bytes that is known up to the rounding of a text.
struct ByteRange {
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;

  bool operator==(const ByteRange&) const = default;
  GPUMEMTRACE_FIELDS(low_bytes, high_bytes)
};

// A size as a text has it: "7.65 GiB" is anything from 7.645 to 7.655 GiB.
struct TextSize : ByteRange {
  std::string text;

  bool operator==(const TextSize&) const = default;
  GPUMEMTRACE_FIELDS(text, low_bytes, high_bytes)
};

enum class MessageKind : std::uint8_t { kPyTorch, kCudaMallocAsync, kJax, kCudaError };
constexpr std::string_view name_of(MessageKind kind) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"pytorch", "cuda_malloc_async", "jax", "cuda_error"});
  return kNames[static_cast<std::size_t>(kind)];
}

// The content of a message. Sizes that its text lacks, or has as "unknown", are empty.
struct FailureMessage {
  MessageKind kind = MessageKind::kPyTorch;
  std::optional<std::uint64_t> gpu;
  std::optional<TextSize> requested;  // asked of the driver, after PyTorch rounded it up
  std::optional<TextSize> capacity;
  std::optional<TextSize> free;         // free on the GPU
  std::optional<TextSize> allocated;    // allocated by PyTorch, including private_pools
  std::optional<TextSize> reserved;     // allocated plus unallocated; only in PyTorch up to 2.0
  std::optional<TextSize> unallocated;  // unused in PyTorch's cache
  // Unused in private pools (CUDA graphs), which only serve requests of their own.
  std::optional<TextSize> private_pools;
  std::optional<TextSize> allowed;       // the limit that the program set for itself
  std::optional<TextSize> this_process;  // in use by this process, including memory not of PyTorch
  std::vector<TextSize> processes;       // in use by each process that has a PID in the text
  std::string settings_variable;         // the variable that the message names; empty: none
  // A setting against fragmentation that the message's version of PyTorch has; may be empty.
  std::string setting;

  // `gpu` is left out, so that equal failures of ranks on different GPUs form one group.
  GPUMEMTRACE_FIELDS(kind, requested, capacity, free, allocated, reserved, unallocated,
                     private_pools, allowed, this_process, processes)
};

// Parses a message. `text` is its words in one line, separated by single spaces.
[[nodiscard]] FailureMessage parse_failure_message(std::string_view text, MessageKind kind);

enum class FailureVerdict : std::uint8_t {
  kExhausted,     // all free and unallocated bytes are too few
  kFragmented,    // free and unallocated bytes are enough, but in pieces
  kLimited,       // bytes are enough without the program's own limit
  kOtherProcess,  // bytes are enough without the other processes
  kUnexplained,   // the GPU alone has enough free
  kTooClose,      // the rounding of the text hides the answer
  kNotSaid,       // the text lacks a number that is needed
};
constexpr std::string_view name_of(FailureVerdict verdict) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"exhausted", "fragmented", "limited", "other_process",
                                       "unexplained", "too_close", "not_said"});
  return kNames[static_cast<std::size_t>(verdict)];
}

// The cause that follows from a message's numbers. A range is empty if it is unknown or could be 0.
struct FailureCause {
  FailureVerdict verdict = FailureVerdict::kNotSaid;
  std::optional<ByteRange> missing;  // bytes missing for the request
  // Bytes left after the request, if all pieces were usable.
  std::optional<ByteRange> left;
  std::optional<ByteRange> non_pytorch;      // used by this process outside PyTorch: context, NCCL
  std::optional<ByteRange> other_processes;  // memory that other processes certainly hold
  std::optional<ByteRange> elsewhere;        // not PyTorch's; which process has it is unknown

  GPUMEMTRACE_FIELDS(verdict, missing, left, non_pytorch, other_processes, elsewhere)
};

[[nodiscard]] FailureCause cause_of(const FailureMessage& message);

}  // namespace gpumemtrace::tools
