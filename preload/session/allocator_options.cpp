// SPDX-License-Identifier: Apache-2.0
#include "preload/session/allocator_options.hpp"

#include <string.h>

#include <atomic>
#include <cstddef>

#include "preload/base/append_once.hpp"
#include "preload/base/message.hpp"

namespace gpumemtrace::preload {
namespace {

// In place of more, or of longer ones: no options that could be replayed.
constexpr std::string_view kNotKept = "(too long, or too many, to be recorded)";
constexpr std::size_t kMaxTexts = 32;

struct Options {
  static constexpr std::size_t kMaxBytes = 504;

  std::size_t size = 0;
  char text[kMaxBytes] = {};

  std::string_view view() const noexcept { return {text, size}; }
};

constinit AppendOnce<Options, kMaxTexts> texts;
constinit std::atomic<std::size_t> last = 0;  // 1 + index in `texts`; 0 = none yet
constexpr std::size_t kIsNotKept = kMaxTexts + 1;

}  // namespace

void keep_allocator_options(std::string_view text) noexcept {
  const auto is_it = [&](const Options& entry) noexcept { return entry.view() == text; };
  std::size_t index = kMaxTexts;
  if (text.size() <= Options::kMaxBytes) {
    const bool kept = texts.add(is_it, [&](Options& entry) noexcept {
      memcpy(entry.text, text.data(), text.size());
      entry.size = text.size();
    });
    if (kept) {
      const std::size_t count = texts.count();
      for (index = 0; index < count && !is_it(texts.entries[index]);) ++index;
    }
  }
  last.store(index < kMaxTexts ? index + 1 : kIsNotKept);
}

std::string_view last_allocator_options() noexcept {
  const std::size_t number = last.load();
  if (number == 0) return {};
  return number == kIsNotKept ? kNotKept : texts.entries[number - 1].view();
}

}  // namespace gpumemtrace::preload
