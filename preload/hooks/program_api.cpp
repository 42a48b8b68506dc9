// SPDX-License-Identifier: Apache-2.0
// The functions that preload/api/gpumemtrace.h and gpumemtrace.py find in a recorded process.

#include <errno.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/session.hpp"
#include "preload/session/suppressions.hpp"

namespace gpumemtrace::preload {
namespace {

// Counts also what is not recorded, so that a step keeps its number when recording begins late.
constinit std::atomic<std::uint64_t> step_count = 0;

void note(trace::AnnotationOperation operation, const char* name, std::uint64_t value) noexcept {
  Note text;
  text.operation = operation;
  text.source = trace::AnnotationSource::kApi;
  text.value = value;
  if (name != nullptr) text.name = std::string_view(name, __builtin_strlen(name));
  annotate(text);
}

}  // namespace
}  // namespace gpumemtrace::preload

using gpumemtrace::preload::CallGuard;
using gpumemtrace::preload::note;
using gpumemtrace::preload::step_count;
using gpumemtrace::trace::AnnotationOperation;

extern "C" {

[[gnu::visibility("default")]] void gpumemtrace_step() {
  // Relaxed: a number, nothing is ordered by it.
  note(AnnotationOperation::kStep, nullptr, step_count.fetch_add(1, std::memory_order_relaxed));
}

[[gnu::visibility("default")]] void gpumemtrace_mark(const char* name) {
  note(AnnotationOperation::kMark, name, 0);
}

[[gnu::visibility("default")]] void gpumemtrace_push(const char* name) {
  note(AnnotationOperation::kPush, name, 0);
}

[[gnu::visibility("default")]] void gpumemtrace_pop() {
  note(AnnotationOperation::kPop, nullptr, 0);
}

[[gnu::visibility("default")]] void gpumemtrace_suppress(const char* lines) {
  const int saved_errno = errno;
  if (lines != nullptr) {
    gpumemtrace::preload::note_suppressions(std::string_view(lines, __builtin_strlen(lines)));
  }
  errno = saved_errno;
}

[[gnu::visibility("default")]] void gpumemtrace_start() {
  const int saved_errno = errno;
  const CallGuard guard;
  if (guard.outermost()) gpumemtrace::preload::want_recording(guard, true);
  errno = saved_errno;
}

[[gnu::visibility("default")]] void gpumemtrace_stop() {
  const int saved_errno = errno;
  const CallGuard guard;
  if (guard.outermost()) gpumemtrace::preload::want_recording(guard, false);
  errno = saved_errno;
}
}
