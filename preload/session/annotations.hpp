// SPDX-License-Identifier: Apache-2.0
// What the program says of its own progress: steps, marks and ranges, through gpumemtrace.h or
// NVTX.
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

// Longest text that is kept of a name; the rest is cut.
inline constexpr std::size_t kMaxNameBytes = 512;

// Records the note on the calling thread. Does nothing where nothing is recorded: notes alone start
// no trace. Any thread; no lock, no allocation, no system call in the steady state.
void annotate(const Annotation& annotation) noexcept;

// Forgets which names the trace has: a new trace needs every name again. Before the session's first
// record. Without memory annotations have no names.
void reset_names() noexcept;

}  // namespace gpumemtrace::preload
