// SPDX-License-Identifier: Apache-2.0
// What the program says of itself: steps, marks and ranges, through gpumemtrace.h or NVTX, and what
// its tensors are.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

struct Annotation {
  trace::AnnotationOperation operation = trace::AnnotationOperation::kMark;
  trace::AnnotationSource source = trace::AnnotationSource::kUnknown;
  std::uint64_t value = 0;
  std::string_view name;    // empty = none
  std::string_view domain;  // empty = the default one
};

// A storage of the framework that is alive.
struct NamedStorage {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  trace::TensorRole role = trace::TensorRole::kUnknown;
  std::string_view name;
  std::string_view state;  // the optimizer's key of it; empty = none
  std::string_view layer;  // the classes of its layer, outermost first; empty = not known
};

// Longest text that is kept of a name; the rest is cut.
inline constexpr std::size_t kMaxNameBytes = 512;

// Records the note on the calling thread. Does nothing where nothing is recorded: notes alone start
// no trace. Any thread; no lock, no allocation, no system call in the steady state.
void annotate(const Annotation& annotation) noexcept;

// The same for what a storage is.
void annotate(const NamedStorage& storage) noexcept;

// Whether anything was said of a storage since the session began.
[[nodiscard]] bool storages_were_named() noexcept;

// Forgets which names the trace has: a new trace needs every name again. Before the session's first
// record. Without memory annotations have no names.
void reset_names() noexcept;

}  // namespace gpumemtrace::preload
