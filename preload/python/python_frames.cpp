// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_frames.hpp"

#include <string.h>

#include <atomic>

#include "preload/base/message.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/python/python_walk.hpp"

namespace gpumemtrace::preload::python {
namespace {

constexpr std::size_t kCheckedWalks = 64;

constinit std::atomic<std::size_t> checked_walks = 0;

}  // namespace

// The first kCheckedWalks walks of a process read through the kernel; if one of them fails, Python
// stacks are turned off.
[[gnu::hot]] std::uint64_t read_stack(std::size_t capacity, std::uint64_t now,
                                      Walk& last) noexcept {
  const Interpreter& python = this_interpreter();
  if (!is_loaded() || is_finalizing(python)) return 0;
  const void* thread_state = python.this_thread_state();
  if (thread_state == nullptr) return 0;
  last.forget_what_is_old(now);
  if (checked_walks.load(std::memory_order_relaxed) >= kCheckedWalks) [[likely]] {
    if (!python.read(python.code_type, thread_state, capacity, last)) return 0;
  } else if (!python.read_checked(python.code_type, thread_state, capacity, last)) {
    turn_off("the interpreter's frames are not where its version has them");
    return 0;
  } else if (last.count > 0) {
    checked_walks.fetch_add(1, std::memory_order_relaxed);
  }
  return last.count == 0 ? 0 : last.links[last.count - 1].hash;
}

std::size_t copy_frames(const Walk& walk, Frame* out) noexcept {
  std::size_t count = 0;
  for (std::size_t i = walk.count; i-- > 0;) {
    if (!walk.notes[i].is_code) continue;
    out[count++] = frame_of(*this_interpreter().layout, walk.links[i].raw, walk.notes[i].version);
  }
  return count;
}

bool read_code(const void* code, Code& out) noexcept {
  const Layout& layout = *this_interpreter().layout;
  if (load<const void*>(code, kTypeOffset) != this_interpreter().code_type) return false;
  out.first_line = load<std::uint32_t>(code, layout.first_line);
  out.qualified_name = load<const void*>(code, layout.qualified_name);
  out.file = load<const void*>(code, layout.file);
  out.line_table = load<const void*>(code, layout.line_table);
  return plausible_pointer(out.qualified_name) && plausible_pointer(out.file) &&
         plausible_pointer(out.line_table);
}

std::size_t copy_text(const void* text, char* out, std::size_t capacity) noexcept {
  const Layout& layout = *this_interpreter().layout;
  const auto length = load<std::int64_t>(text, kSizeOffset);
  const TextForm form = text_form(layout, load<std::uint32_t>(text, kTextStateOffset));
  const std::uint32_t kind = form.kind;
  if (length < 0 || !form.compact || (kind != 1 && kind != 2 && kind != 4)) return 0;
  const auto count = static_cast<std::size_t>(length);
  if (form.ascii) {
    const std::size_t copied = count < capacity ? count : capacity;
    memcpy(out, static_cast<const char*>(text) + layout.ascii_text, copied);
    return copied;
  }
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = layout.other_text + i * kind;
    std::uint32_t point = 0;
    memcpy(&point, static_cast<const char*>(text) + at, kind);
    const std::size_t put = put_utf8(point, out + used, capacity - used);
    if (put == 0) break;
    used += put;
  }
  return used;
}

std::string_view bytes_of(const void* bytes) noexcept {
  constexpr std::int64_t kMaxBytes = 1 << 20;
  const auto length = load<std::int64_t>(bytes, kSizeOffset);
  if (length < 0 || length > kMaxBytes) return {};
  return {static_cast<const char*>(bytes) + kBytesOffset, static_cast<std::size_t>(length)};
}

}  // namespace gpumemtrace::preload::python
