// SPDX-License-Identifier: Apache-2.0
// The program's and its framework's own annotations: steps, marks and ranges (through gpumemtrace.h
// or NVTX), the names of tensors, suppressions, and the allocator's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// The communicator that a range of NCCL is about, as NCCL says.
struct Communicator {
  std::uint64_t hash = 0;         // the same for all its ranks; 0 = not told
  std::uint32_t ranks = 0;        // 0 = not told
  std::int32_t rank = -1;         // -1 = not told
  std::int32_t cuda_device = -1;  // -1 = not told
};

struct Annotation {
  trace::AnnotationOperation operation = trace::AnnotationOperation::kMark;
  trace::AnnotationSource source = trace::AnnotationSource::kUnknown;
  std::uint64_t value = 0;
  std::string_view name;    // empty = none
  std::string_view domain;  // empty = the default one
  Communicator communicator;
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

// The longest name that is kept; the rest is cut.
inline constexpr std::size_t kMaxNameBytes = 512;

// Records the note on the calling thread. Does nothing if there is no recording: notes alone start
// no trace. Any thread; no lock, no allocation, no system call in the steady state.
void annotate(const Annotation& annotation) noexcept;

// The same for the name of a storage.
void annotate(const NamedStorage& storage) noexcept;

// True if any storage was named since the session began.
[[nodiscard]] bool storages_were_named() noexcept;

// Forgets the names that the trace has: a new trace needs every name again. Before the session's
// first record. Without memory annotations have no names.
void reset_names() noexcept;

// --- Suppressions: findings that the program wants left out, in the syntax of a suppressions file.

// Keeps a copy of every line of the text for this trace and those of children. Lines that are too
// long or too many are left out with a message. Any thread; no lock, no allocation.
void keep_suppressions(std::string_view text) noexcept;

// The background thread writes them.
std::size_t suppression_count() noexcept;
std::string_view suppression_at(std::size_t index) noexcept;

// --- The options that PyTorch's allocator took last, from its environment or from the program.

// Keeps a copy for traces that begin later. Any thread; no lock, no allocation.
void keep_allocator_options(std::string_view text) noexcept;

// Without data() if PyTorch took none. The text does not change.
[[nodiscard]] std::string_view last_allocator_options() noexcept;

}  // namespace gpumemtrace::preload
