// SPDX-License-Identifier: Apache-2.0
#include "preload/session/suppressions.hpp"

#include <string.h>

#include <atomic>

#include "preload/base/append_once.hpp"
#include "preload/base/message.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxSuppressions = 128;
constexpr std::size_t kMaxSuppressionBytes = 248;

struct Suppression {
  std::size_t size = 0;
  char text[kMaxSuppressionBytes] = {};

  std::string_view view() const noexcept { return {text, size}; }
};

constinit AppendOnce<Suppression, kMaxSuppressions> suppressions;

bool keep(std::string_view line) noexcept {
  if (line.size() > kMaxSuppressionBytes) return false;
  const auto is_it = [&](const Suppression& entry) { return entry.view() == line; };
  const auto fill = [&](Suppression& entry) {
    memcpy(entry.text, line.data(), line.size());
    entry.size = line.size();
  };
  return suppressions.add(is_it, fill) < kMaxSuppressions;
}

// Not inlined: the line must not lie on the stack of a thread that has nothing to say.
[[gnu::noinline]] void say_some_are_left_out() noexcept {
  message(Line() << "some suppressions of the program are left out: more than " << kMaxSuppressions
                 << " lines, or a line of more than " << kMaxSuppressionBytes
                 << " bytes; put them into a file for --suppressions");
}

}  // namespace

void keep_suppressions(std::string_view text) noexcept {
  bool all = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = slice(text, 0, end);
    if (!line.empty()) all = keep(line) && all;
    text = slice(text, end == std::string_view::npos ? text.size() : end + 1);
  }
  static constinit std::atomic<bool> said = false;
  if (!all && !said.exchange(true)) say_some_are_left_out();
}

std::size_t suppression_count() noexcept { return suppressions.count(); }
std::string_view suppression_at(std::size_t index) noexcept {
  return suppressions.entries[index].view();
}

}  // namespace gpumemtrace::preload
