// SPDX-License-Identifier: Apache-2.0
// The functions that preload/api/gpumemtrace.h and gpumemtrace.py find in a recorded process.

#include <atomic>
#include <cstdint>
#include <string_view>

#include "preload/base/errno_keeper.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/attach.hpp"
#include "preload/session/suppressions.hpp"

namespace gpumemtrace::preload {
namespace {

// Counts also what is not recorded, so that a step keeps its number when recording begins late.
constinit std::atomic<std::uint64_t> step_count = 0;

void annotate_by_api(trace::AnnotationOperation operation, const char* name,
                     std::uint64_t value) noexcept {
  Annotation text;
  text.operation = operation;
  text.source = trace::AnnotationSource::kApi;
  text.value = value;
  if (name != nullptr) text.name = std::string_view(name, __builtin_strlen(name));
  annotate(text);
}

}  // namespace
}  // namespace gpumemtrace::preload

using gpumemtrace::preload::annotate_by_api;
using gpumemtrace::preload::CallGuard;
using gpumemtrace::preload::step_count;
using gpumemtrace::trace::AnnotationOperation;

extern "C" {

[[gnu::visibility("default")]] void gpumemtrace_step() {
  // Relaxed: a number, nothing is ordered by it.
  annotate_by_api(AnnotationOperation::kStep, nullptr,
                  step_count.fetch_add(1, std::memory_order_relaxed));
}

[[gnu::visibility("default")]] void gpumemtrace_mark(const char* name) {
  annotate_by_api(AnnotationOperation::kMark, name, 0);
}

[[gnu::visibility("default")]] void gpumemtrace_push(const char* name) {
  annotate_by_api(AnnotationOperation::kPush, name, 0);
}

[[gnu::visibility("default")]] void gpumemtrace_pop() {
  annotate_by_api(AnnotationOperation::kPop, nullptr, 0);
}

[[gnu::visibility("default")]] void gpumemtrace_suppress(const char* lines) {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  if (lines != nullptr) {
    gpumemtrace::preload::keep_suppressions(std::string_view(lines, __builtin_strlen(lines)));
  }
}

[[gnu::visibility("default")]] void gpumemtrace_start() {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  const CallGuard guard;
  if (guard.outermost()) gpumemtrace::preload::request_recording(guard, true);
}

[[gnu::visibility("default")]] void gpumemtrace_stop() {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  const CallGuard guard;
  if (guard.outermost()) gpumemtrace::preload::request_recording(guard, false);
}
}
