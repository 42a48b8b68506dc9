// SPDX-License-Identifier: Apache-2.0
// The functions that preload/api/gpumemtrace.h and gpumemtrace.py find in a recorded process.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/thread_guards.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/lifecycle.hpp"

namespace gpumemtrace::preload {
namespace {

// The number of steps that the program has marked. Steps that are not recorded count, too, so that
// a step keeps its number if recording begins late.
constinit std::atomic<std::uint64_t> step_count = 0;

std::string_view view_of(const char* text) noexcept {
  return text == nullptr ? std::string_view() : std::string_view(text, __builtin_strlen(text));
}

constexpr bool is_role(int role) noexcept {
  return role >= static_cast<int>(trace::TensorRole::kParameter) &&
         role <= static_cast<int>(trace::TensorRole::kBuffer);
}

void annotate_by_api(trace::AnnotationOperation operation, const char* name,
                     std::uint64_t value) noexcept {
  Annotation text;
  text.operation = operation;
  text.source = trace::AnnotationSource::kApi;
  text.value = value;
  text.name = view_of(name);
  annotate(text);
}

void request(bool recording) noexcept {
  const ErrnoKeeper errno_keeper;
  const CallGuard guard;
  if (guard.outermost()) request_recording(guard, recording);
}

}  // namespace
}  // namespace gpumemtrace::preload

using gpumemtrace::preload::annotate_by_api;
using gpumemtrace::preload::is_role;
using gpumemtrace::preload::NamedStorage;
using gpumemtrace::preload::request;
using gpumemtrace::preload::step_count;
using gpumemtrace::preload::view_of;
using gpumemtrace::trace::AnnotationOperation;
using gpumemtrace::trace::TensorRole;

extern "C" {

[[gnu::visibility("default")]] void gpumemtrace_step() {
  // Relaxed: no other data is ordered by the step's number.
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

[[gnu::visibility("default")]] void gpumemtrace_tensor(const void* storage, std::size_t bytes,
                                                       int role, const char* name,
                                                       const char* state, const char* layer) {
  if (storage == nullptr || bytes == 0 || !is_role(role)) return;
  NamedStorage named;
  named.address = reinterpret_cast<std::uintptr_t>(storage);
  named.bytes = bytes;
  named.role = static_cast<TensorRole>(role);
  named.name = view_of(name);
  named.state = view_of(state);
  named.layer = view_of(layer);
  gpumemtrace::preload::annotate(named);
}

[[gnu::visibility("default")]] void gpumemtrace_suppress(const char* lines) {
  const gpumemtrace::preload::ErrnoKeeper errno_keeper;
  gpumemtrace::preload::keep_suppressions(view_of(lines));
}

[[gnu::visibility("default")]] void gpumemtrace_start() { request(true); }

[[gnu::visibility("default")]] void gpumemtrace_stop() { request(false); }
}
