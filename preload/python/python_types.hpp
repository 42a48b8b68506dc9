// SPDX-License-Identifier: Apache-2.0
// Types that the parts of this room exchange about an interpreter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/key_table.hpp"

namespace gpumemtrace::preload::python {

inline constexpr std::size_t kMaxFrames = 200;  // as many as fit into one record

struct Frame {
  const void* code;
  std::uint32_t instruction;  // byte offset into the code
  std::uint32_t version;      // of the code object; distinguishes objects that reuse an address

  friend bool operator==(const Frame&, const Frame&) = default;
};

// The content of a frame, without its code object.
struct RawFrame {
  const void* code;
  std::uint64_t instruction;  // a pointer into the code, or an index
};

// Offsets of the state of an interpreter's cycle collector, in bytes.
struct Collector {
  std::size_t collecting = 0;  // in the interpreter: an int; 0 = not known where
  // The lock of the interpreter: in the runtime, or, from 3.12 on, behind a pointer in the
  // interpreter.
  std::size_t lock = 0;
};

// Step of the hash of a stack, outermost frame first.
inline std::uint64_t hash_with(std::uint64_t hash, const Frame& frame) noexcept {
  const std::uint64_t instruction = std::uint64_t{frame.version} << 32 | frame.instruction;
  return mix(mix(hash, reinterpret_cast<std::uintptr_t>(frame.code)), instruction);
}

// Tells code objects apart, also those that reuse each other's address. Address and version are
// mixed one after the other: joined, they would be the same for pairs that differ alike.
inline std::uint64_t key_of_code(const Frame& frame) noexcept {
  return mix(mix(0, reinterpret_cast<std::uintptr_t>(frame.code)), frame.version);
}

}  // namespace gpumemtrace::preload::python
