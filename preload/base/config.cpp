// SPDX-License-Identifier: Apache-2.0
#include "preload/base/config.hpp"

#include <unistd.h>

#include <algorithm>

#include "preload/base/message.hpp"
#include "trace/file_layout.hpp"

namespace gpumemtrace::preload {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

// True if `value` is the word `lower` (ASCII) in upper or lower case. Does not use libc, whose
// comparison asks for the locale.
bool is_word(std::string_view value, std::string_view lower) noexcept {
  return std::ranges::equal(value, lower, {},
                            [](char c) { return 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c; });
}

bool is_true(std::string_view value) noexcept {
  return !value.empty() && value != "0" && !is_word(value, "false") && !is_word(value, "no") &&
         !is_word(value, "off");
}

// Not inlined: callers that print nothing would have the message's buffer on their stacks.
[[gnu::noinline]] void complain(std::string_view name, std::string_view value,
                                std::string_view remedy) noexcept {
  message(Line() << name << "=" << value << remedy);
}

void read_size(std::string_view name, std::uint64_t& bytes) noexcept {
  const std::string_view value = environment(name);
  if (value.empty() || parse_size(value, bytes)) return;
  complain(name, value, " is no size; use bytes or a unit, such as 64MiB.");
}

}  // namespace

std::string_view environment(std::string_view name) noexcept {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=') {
      return slice(text, name.size() + 1);
    }
  }
  return {};
}

bool parse_size(std::string_view text, std::uint64_t& bytes) noexcept {
  std::uint64_t number = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (number > (~0ull - 9) / 10) return false;
    number = number * 10 + static_cast<std::uint64_t>(text[digits++] - '0');
  }
  if (digits == 0) return false;
  for (const Unit& unit : kUnits) {
    if (slice(text, digits) != unit.name) continue;
    if (number > ~0ull / unit.bytes) return false;
    bytes = number * unit.bytes;
    return true;
  }
  return false;
}

namespace {

void read_stack_settings(Config& config) noexcept {
  if (const std::string_view python = environment("GPUMEMTRACE_PYTHON"); !python.empty()) {
    config.python_stacks = is_true(python);
  }
  const std::string_view native = environment("GPUMEMTRACE_NATIVE");
  if (native == "off") {
    config.native_stacks = NativeStacks::kNone;
  } else if (native == "full") {
    config.native_stacks = NativeStacks::kFull;
  } else if (!native.empty() && native != "auto") {
    complain("GPUMEMTRACE_NATIVE", native, " is none of off, auto and full; using auto.");
  }
  read_size("GPUMEMTRACE_STACK_DEPTH", config.stack_depth);
}

}  // namespace

Config read_config() noexcept {
  if (is_true(environment("GPUMEMTRACE_QUIET"))) silence_messages();
  Config config;
  config.output_pattern = environment("GPUMEMTRACE_OUTPUT");
  config.force = is_true(environment("GPUMEMTRACE_FORCE"));
  config.start_paused = is_true(environment("GPUMEMTRACE_START_PAUSED"));
  config.hash_copies = is_true(environment("GPUMEMTRACE_HASH_COPIES"));
  config.torch_names = is_true(environment("GPUMEMTRACE_TORCH_NAMES"));
  read_stack_settings(config);
  read_size("GPUMEMTRACE_RING_SIZE", config.ring_bytes);
  read_size("GPUMEMTRACE_MAX_TRACE_BYTES", config.max_trace_bytes);
  // In a smaller file, the records that define names and stacks could alone force a checkpoint.
  constexpr std::uint64_t kSmallestTrace = 256 << 10;
  if (config.max_trace_bytes < kSmallestTrace) config.max_trace_bytes = kSmallestTrace;
  constexpr std::uint64_t kSmallestRing = 8 * trace::kMaxChunkBytes;
  constexpr std::uint64_t kLargestRing = 16ull << 30;
  if (config.ring_bytes < kSmallestRing) config.ring_bytes = kSmallestRing;
  if (config.ring_bytes > kLargestRing) config.ring_bytes = kLargestRing;
  const std::string_view on_full = environment("GPUMEMTRACE_ON_FULL");
  if (on_full == "block") {
    config.on_full = OnFull::kBlock;
  } else if (!on_full.empty() && on_full != "drop") {
    complain("GPUMEMTRACE_ON_FULL", on_full, " is neither drop nor block; using drop.");
  }
  return config;
}

}  // namespace gpumemtrace::preload
