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
// Index in `texts` of the last one, or:
constexpr std::size_t kIsNotKept = kMaxTexts;
constexpr std::size_t kNoneYet = kMaxTexts + 1;
constinit std::atomic<std::size_t> last = kNoneYet;

}  // namespace

void keep_allocator_options(std::string_view text) noexcept {
  const auto is_it = [&](const Options& entry) noexcept { return entry.view() == text; };
  const auto fill = [&](Options& entry) noexcept {
    memcpy(entry.text, text.data(), text.size());
    entry.size = text.size();
  };
  last.store(text.size() <= Options::kMaxBytes ? texts.add(is_it, fill) : kIsNotKept);
}

std::string_view last_allocator_options() noexcept {
  const std::size_t index = last.load();
  if (index == kNoneYet) return {};
  return index == kIsNotKept ? kNotKept : texts.entries[index].view();
}

}  // namespace gpumemtrace::preload
