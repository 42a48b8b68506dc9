// SPDX-License-Identifier: Apache-2.0
// The user's settings, from the GPUMEMTRACE_* environment variables, read once at the start of a
// recording.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemtrace::preload {

enum class OnFull { kDrop, kBlock };
enum class NativeStacks { kNone, kAuto, kFull };  // see StackUse

struct Config {
  std::string_view output_pattern;  // empty: the default pattern
  std::uint64_t ring_bytes = 64ull << 20;
  std::uint64_t max_trace_bytes = 4ull << 30;
  OnFull on_full = OnFull::kDrop;
  bool force = false;
  bool start_paused = false;
  bool hash_copies = false;
  bool torch_names = false;  // the user asked for a sitecustomize that names tensors
  bool python_stacks = true;
  NativeStacks native_stacks = NativeStacks::kAuto;
  std::uint64_t stack_depth = 64;
};

// Value of an environment variable, empty if it is not set. The text lives as long as the
// environment does.
std::string_view environment(std::string_view name) noexcept;

// Reads all GPUMEMTRACE_* variables. Prints a message for a value that is not understood and keeps
// the default.
Config read_config() noexcept;

// Reads a size such as "512KiB", "64MB", "1GiB" or a number of bytes; false if the text is no size.
[[nodiscard]] bool parse_size(std::string_view text, std::uint64_t& bytes) noexcept;

}  // namespace gpumemtrace::preload
