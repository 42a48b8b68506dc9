// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_waiting.hpp"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "preload/base/checked_memory.hpp"
#include "preload/base/message.hpp"
#include "preload/python/python_frames.hpp"
#include "preload/python/python_interpreter.hpp"

namespace gpumemtrace::preload::python {
namespace {

constexpr std::size_t kMostThreads = 4096;  // the most thread states read of one interpreter

// A copy of a str or bytes object, with the characters or bytes that follow its header.
class ObjectCopy {
 public:
  // Copies `header_bytes` and then `item_bytes` for each of the object's items, at most
  // `most_items`.
  bool read(const void* object, std::size_t header_bytes, std::size_t item_bytes,
            std::size_t most_items, ReadingLog* log) noexcept {
    std::int64_t length = 0;
    if (!read_noted(log, static_cast<const char*>(object) + kSizeOffset, length) || length < 0) {
      return false;
    }
    std::size_t items = static_cast<std::size_t>(length);
    if (items > most_items) items = most_items;
    const std::size_t size = header_bytes + items * item_bytes;
    if (size > sizeof content_) return false;
    // The reference count, which lies before the size and may change meanwhile, is left out.
    if (!read_noted(log, static_cast<const char*>(object) + kSizeOffset, content_ + kSizeOffset,
                    size - kSizeOffset)) {
      return false;
    }
    const auto kept = static_cast<std::int64_t>(items);
    memcpy(content_ + kSizeOffset, &kept, sizeof kept);
    return true;
  }
  const void* object() const noexcept { return content_; }

 private:
  alignas(8) char content_[72 + 65536];
};

// Static, because it is too large for a stack; only the sampling thread uses it.
constinit ObjectCopy object_copy = {};

// Copies a str object of another thread as UTF-8; returns the number of bytes, 0 if it looks wrong.
std::size_t copy_str(const void* text, char* out, std::size_t capacity, ReadingLog* log) noexcept {
  const Layout& layout = *this_interpreter().layout;
  constexpr std::size_t kWidestCharacter = 4;
  std::uint32_t state = 0;
  if (!read_noted(log, static_cast<const char*>(text) + kTextStateOffset, state)) return 0;
  const TextForm form = text_form(layout, state);
  const std::size_t header = form.ascii ? layout.ascii_text : layout.other_text;
  if (form.kind == 0 || form.kind > kWidestCharacter ||
      !object_copy.read(text, header, form.kind, capacity, log)) {
    return 0;
  }
  return copy_text(object_copy.object(), out, capacity);
}

// True for the function in which a thread waits for PyTorch's engine: _engine_run_backward since
// PyTorch 2.3, earlier backward() and grad() of torch/autograd/__init__.py.
bool waits_for_engine(const void* code, ReadingLog& log) noexcept {
  const Layout& layout = *this_interpreter().layout;
  Checked reader(log);
  const void* name = nullptr;
  const void* file = nullptr;
  if (!reader.read(code, layout.qualified_name, name) || !plausible_pointer(name) ||
      !reader.read(code, layout.file, file) || !plausible_pointer(file)) {
    return false;
  }
  char text[256];
  const std::string_view function(text, copy_str(name, text, sizeof text, &log));
  if (function == "_engine_run_backward") return true;
  if (function != "backward" && function != "grad") return false;
  return std::string_view(text, copy_str(file, text, sizeof text, &log))
      .ends_with("torch/autograd/__init__.py");
}

// The kernel's id of a thread with a known pthread_t: glibc keeps the id in the structure that the
// pthread_t points to, at the same offset as for the calling thread.
std::uint64_t thread_id_of(std::uint64_t pthread, ReadingLog& log) noexcept {
  constexpr std::size_t kSearchedBytes = 1024;
  const auto own_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  const auto* const own = reinterpret_cast<const char*>(pthread_self());
  for (std::size_t offset = 0; offset < kSearchedBytes; offset += sizeof own_id) {
    std::uint32_t word = 0;
    if (!read_through_kernel(own + offset, word)) return 0;
    if (word != own_id) continue;
    return read_noted(&log, reinterpret_cast<const char*>(pthread) + offset, word) ? word : 0;
  }
  return 0;
}

std::uint64_t read_thread_id(const void* thread_state, ReadingLog& log) noexcept {
  const Layout& layout = *this_interpreter().layout;
  std::uint64_t id = 0;
  if (!read_noted(&log, static_cast<const char*>(thread_state) + layout.thread_id, id)) return 0;
  return layout.minor >= 11 ? id : thread_id_of(id, log);
}

// Reads a thread's frames, innermost first; returns their number, or -1 if memory did not look like
// frames.
std::ptrdiff_t walk_checked(const Interpreter& python, const void* thread_state, Frame* out,
                            std::size_t capacity, ReadingLog& log) noexcept {
  Checked reader(log);
  RawFrame raw[kMaxFrames];
  const std::ptrdiff_t count = walk(reader, *python.layout, thread_state, raw, capacity);
  std::ptrdiff_t found = 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    std::uint32_t version = 0;
    const Look look = look_at_code(reader, *python.layout, python.code_type, raw[i].code, version);
    if (look == Look::kNoMemory) return -1;
    if (look == Look::kCode) out[found++] = frame_of(*python.layout, raw[i], version);
  }
  return count < 0 ? count : found;
}

// Reads a thread's frames if it waits for the engine. Reads them twice: false if they differ,
// because the thread has gone on.
bool read_waiting(const void* thread_state, WaitingThread& out, std::size_t depth,
                  ReadingLog& log) noexcept {
  const Interpreter& python = this_interpreter();
  Frame innermost[1];
  if (walk_checked(python, thread_state, innermost, 1, log) != 1 ||
      !waits_for_engine(innermost[0].code, log)) {
    return false;
  }
  if (depth > kMaxFrames) depth = kMaxFrames;
  const std::ptrdiff_t count = walk_checked(python, thread_state, out.frames, depth, log);
  Frame again[kMaxFrames];
  if (count <= 0 || walk_checked(python, thread_state, again, depth, log) != count ||
      !std::equal(out.frames, out.frames + count, again) ||
      out.frames[0].code != innermost[0].code) {
    return false;
  }
  out.count = static_cast<std::size_t>(count);
  out.thread_id = read_thread_id(thread_state, log);
  return true;
}

}  // namespace

std::span<const WaitingThread> WaitingLook::found() const noexcept {
  if (last_ == nullptr) return {};
  return {last_->found, last_->count};
}

// Uses an earlier outcome if its memory is unchanged. Otherwise samples again, and keeps the last
// outcome that found a waiting thread.
void WaitingLook::look(std::size_t depth) noexcept {
  last_ = nullptr;
  if (state() != State::kOn || depth == 0) return;
  for (Outcome* known : {&outcomes_[waiting_], &outcomes_[1 - waiting_]}) {
    if (!known->log.is_unchanged()) continue;
    last_ = known;
    return;
  }
  Outcome& fresh = outcomes_[1 - waiting_];
  fresh.log.clear();
  fresh.count = 0;
  read_all(depth, fresh);
  last_ = &fresh;
  if (fresh.count > 0) waiting_ = 1 - waiting_;
}

void WaitingLook::read_all(std::size_t depth, Outcome& out) noexcept {
  const Interpreter& python = this_interpreter();
  const void* finalizing = nullptr;
  Interpreters interpreters;
  const void* thread_state = nullptr;
  if (python.thread_list == 0 || !read_noted(&out.log, python.finalizing, finalizing) ||
      finalizing != nullptr || !read_noted(&out.log, python.interpreters, interpreters) ||
      !read_noted(&out.log, static_cast<const char*>(interpreters.main) + python.thread_list,
                  thread_state)) {
    return;
  }
  for (std::size_t i = 0; i < kMostThreads && out.count < kMaxThreads; ++i) {
    if (!plausible_pointer(thread_state)) break;
    if (read_waiting(thread_state, out.found[out.count], depth, out.log)) ++out.count;
    if (!read_noted(&out.log, static_cast<const char*>(thread_state) + kNextThread, thread_state)) {
      break;
    }
  }
}

bool copy_code(const void* code, CodeCopy& out) noexcept {
  const Interpreter& python = this_interpreter();
  const Layout& layout = *python.layout;
  Checked reader;
  const void* type = nullptr;
  const void* name = nullptr;
  const void* file = nullptr;
  const void* table = nullptr;
  if (!reader.read(code, kTypeOffset, type) || type != python.code_type ||
      !reader.read(code, layout.first_line, out.first_line) ||
      !reader.read(code, layout.qualified_name, name) || !plausible_pointer(name) ||
      !reader.read(code, layout.file, file) || !plausible_pointer(file) ||
      !reader.read(code, layout.line_table, table) || !plausible_pointer(table)) {
    return false;
  }
  out.name_bytes = copy_str(name, out.name, sizeof out.name, nullptr);
  out.file_bytes = copy_str(file, out.file, sizeof out.file, nullptr);
  out.line_table_bytes = 0;
  if (object_copy.read(table, kBytesOffset, 1, sizeof out.line_table, nullptr)) {
    const std::string_view content = bytes_of(object_copy.object());
    memcpy(out.line_table, content.data(), content.size());
    out.line_table_bytes = content.size();
  }
  return true;
}

}  // namespace gpumemtrace::preload::python
