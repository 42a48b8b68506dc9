// SPDX-License-Identifier: Apache-2.0
// The program's and its framework's own annotations: steps, marks and ranges (through gpumemtrace.h
// or NVTX), the names of tensors, suppressions, and the allocator's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// The communicator that an NVTX range of NCCL is about, as NCCL reports it.
struct Communicator {
  std::uint64_t hash = 0;         // the same on all ranks of the communicator; 0 = not reported
  std::uint32_t ranks = 0;        // 0 = not reported
  std::int32_t rank = -1;         // -1 = not reported
  std::int32_t cuda_device = -1;  // -1 = not reported
};

struct Annotation {
  trace::AnnotationOperation operation = trace::AnnotationOperation::kMark;
  trace::AnnotationSource source = trace::AnnotationSource::kUnknown;
  std::uint64_t value = 0;
  std::string_view name;    // empty = none
  std::string_view domain;  // empty = the default domain
  Communicator communicator;
};

// A live tensor storage of the framework (PyTorch), with the names that the trace keeps of it.
struct NamedStorage {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  trace::TensorRole role = trace::TensorRole::kUnknown;
  std::string_view name;
  std::string_view state;  // the optimizer's key for the tensor; empty = none
  std::string_view layer;  // class names of the tensor's layer, outermost first; empty = not known
};

// The longest name that is recorded, in bytes; the rest of a longer name is cut.
inline constexpr std::size_t kMaxNameBytes = 512;

// Records the annotation on the calling thread. Does nothing if there is no recording: annotations
// alone start no trace. Any thread; no lock, no allocation, no system call in the steady state.
void annotate(const Annotation& annotation) noexcept;

// Records the names of a tensor storage, under the same conditions as an annotation.
void annotate(const NamedStorage& storage) noexcept;

// True if any storage was named since the session began.
[[nodiscard]] bool storages_were_named() noexcept;

// Forgets which names have been written: a new trace needs every name again. Called before the
// session's first record. If there is no memory for the table, annotations have no names.
void reset_names() noexcept;

// --- Suppressions: findings that the program wants left out, in the syntax of a suppressions file.

// Keeps a copy of every line of the text for this trace and those of forked children. Lines that
// are too long or too many are left out with a message. Any thread; no lock, no allocation.
void keep_suppressions(std::string_view text) noexcept;

// The kept suppressions, which the background thread writes to the trace.
std::size_t suppression_count() noexcept;
std::string_view suppression_at(std::size_t index) noexcept;

// --- The options that PyTorch's allocator took last, from its environment or from the program.

// Keeps a copy of the options for traces that begin later. Any thread; no lock, no allocation.
void keep_allocator_options(std::string_view text) noexcept;

// The options that PyTorch's allocator took last; data() is nullptr if it took none. The text does
// not change.
[[nodiscard]] std::string_view last_allocator_options() noexcept;

}  // namespace gpumemtrace::preload
